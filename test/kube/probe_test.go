package kube

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probes asks a container whether it started, and then whether it lives and is ready.
func (p *pod) probes(ctx context.Context, c *corev1.Container) {
	dead := func(ok bool) {
		if ok {
			return
		}
		p.node.log("%s/%s: a probe failed for too long", p.spec.Namespace, p.spec.Name)
		p.kill(c.Name, syscall.SIGTERM)
	}
	if c.StartupProbe != nil {
		first, decided := context.WithCancel(ctx)
		started := false
		p.probe(first, c, c.StartupProbe, func(ok bool) {
			dead(ok)
			started = ok
			decided()
		})
		decided()
		if !started {
			return
		}
		p.set(ctx, c.Name, func(s *state) {
			yes := true
			s.Started = &yes
		})
	}
	if c.LivenessProbe != nil {
		go p.probe(ctx, c, c.LivenessProbe, dead)
	}
	if c.ReadinessProbe != nil {
		p.probe(ctx, c, c.ReadinessProbe, func(ok bool) {
			p.set(ctx, c.Name, func(s *state) { s.ready = ok && s.State.Running != nil })
		})
	}
}

// probe asks until ctx ends, and reports each change of the answer.
func (p *pod) probe(ctx context.Context, c *corev1.Container, probe *corev1.Probe, changed func(ok bool)) {
	if !pause(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second) {
		return
	}
	count, last := int32(0), false
	for first := true; first || pause(ctx, time.Duration(probe.PeriodSeconds)*time.Second); first = false {
		err := p.ask(ctx, c, probe)
		if ctx.Err() != nil {
			return
		}
		if ok := err == nil; ok == last {
			count++
		} else {
			count, last = 1, ok
		}
		enough := probe.FailureThreshold
		if last {
			enough = probe.SuccessThreshold
		}
		if count == enough {
			changed(last)
		}
	}
}

// ask asks once.
func (p *pod) ask(ctx context.Context, c *corev1.Container, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	switch {
	case probe.TCPSocket != nil:
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.at(c, probe.TCPSocket.Port))
		if err != nil {
			return err
		}
		return conn.Close()
	case probe.HTTPGet != nil:
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.at(c, probe.HTTPGet.Port)+probe.HTTPGet.Path, nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 400 {
			return fmt.Errorf("it answers %s", resp.Status)
		}
		return nil
	}
	p.node.fail("%s has a probe that this test does not know", c.Name)
	return nil
}

// at is the address of a port of the container.
func (p *pod) at(c *corev1.Container, port intstr.IntOrString) string {
	number := port.IntValue()
	for _, known := range c.Ports {
		if port.Type == intstr.String && known.Name == port.StrVal {
			number = int(known.ContainerPort)
		}
	}
	return net.JoinHostPort(p.ip, strconv.Itoa(number))
}

// kill sends a signal to a container.
func (p *pod) kill(name string, signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.state[name]; s != nil && s.pid != 0 {
		_ = syscall.Kill(s.pid, signal)
	}
}
