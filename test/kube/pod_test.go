package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// pod runs one pod. Its containers are processes.
type pod struct {
	node   *node
	spec   *corev1.Pod // as it was bound
	dir    string
	ip     string
	token  string // of its service account, if it mounts one
	mounts map[string]string

	mu    sync.Mutex
	state map[string]*state // by the name of the container
	phase corev1.PodPhase
}

// state is the state of a container.
type state struct {
	corev1.ContainerStatus

	pid   int
	ready bool // its readiness probe says so, or there is none
}

// run runs the pod until it ended or was deleted.
func (p *pod) run(ctx context.Context) {
	p.phase = corev1.PodPending
	if !p.prepare(ctx) {
		p.remove(ctx)
		return
	}
	if len(p.spec.Spec.InitContainers) > 0 {
		p.node.fail("%s has init containers, which this test does not know", p.spec.Name)
	}
	var all sync.WaitGroup
	for i := range p.spec.Spec.Containers {
		all.Go(func() { p.container(ctx, &p.spec.Spec.Containers[i]) })
	}
	watch, stop := context.WithCancel(ctx)
	go p.refresh(watch)
	all.Wait()
	stop()
	_ = command(ctx, "ip", "netns", "del", string(p.spec.UID))
	if p.phase = corev1.PodSucceeded; slices.ContainsFunc(p.spec.Spec.Containers, func(c corev1.Container) bool { return p.state[c.Name].State.Terminated.ExitCode != 0 }) {
		p.phase = corev1.PodFailed
	}
	p.report(ctx)
	for p.deleted() == nil {
		if !pause(ctx, tick) {
			return
		}
	}
	p.remove(ctx)
}

// prepare makes volumes and the network, as soon as the objects that they need exist. It reports
// whether it did so before the pod was deleted.
func (p *pod) prepare(ctx context.Context) bool {
	for last := ""; ; {
		err := p.volumes(ctx)
		if err == nil {
			err = link(ctx, string(p.spec.UID), p.ip, p.node.number())
		}
		if err == nil {
			return true
		}
		if last != err.Error() {
			last = err.Error()
			p.node.log("%s/%s waits: %v", p.spec.Namespace, p.spec.Name, err)
		}
		if p.deleted() != nil || !pause(ctx, tick) {
			return false
		}
	}
}

func (p *pod) volumes(ctx context.Context) error {
	p.mounts = map[string]string{}
	for i := range p.spec.Spec.Volumes {
		v := &p.spec.Spec.Volumes[i]
		dir, err := p.volume(ctx, v)
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		p.mounts[v.Name] = dir
	}
	return nil
}

// refresh brings the files of Secrets and ConfigMaps up to date.
func (p *pod) refresh(ctx context.Context) {
	for pause(ctx, time.Second) {
		for i := range p.spec.Spec.Volumes {
			if v := &p.spec.Spec.Volumes[i]; v.Secret != nil || v.ConfigMap != nil {
				_, _ = p.volume(ctx, v) // a file whose object is absent stays as it was
			}
		}
	}
}

// container runs a container again and again, as the pod wants it.
func (p *pod) container(ctx context.Context, c *corev1.Container) {
	wait := time.Second
	for {
		code := p.once(ctx, c)
		again := p.spec.Spec.RestartPolicy == corev1.RestartPolicyAlways || p.spec.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && code != 0
		if p.deleted() != nil || !again {
			return
		}
		for began := time.Now(); time.Since(began) < wait; {
			if p.deleted() != nil || !pause(ctx, tick) {
				return
			}
		}
		wait = min(2*wait, 10*time.Second)
	}
}

// once runs a container to its end, and returns its exit code.
func (p *pod) once(ctx context.Context, c *corev1.Container) int32 {
	b, err := p.box(ctx, c)
	for err != nil {
		p.node.log("%s/%s: %v", p.spec.Namespace, p.spec.Name, err)
		p.set(ctx, c.Name, func(s *state) {
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}}
		})
		if p.deleted() != nil || !pause(ctx, time.Second) {
			p.terminated(ctx, c.Name, 128, time.Now())
			return 128
		}
		b, err = p.box(ctx, c)
	}
	began := time.Now()
	cmd, err := b.start(p.node.logFile(p.spec.Namespace, p.spec.Name))
	if err != nil {
		p.node.fail("starting %s of %s: %v", c.Name, p.spec.Name, err)
		p.terminated(ctx, c.Name, 128, began)
		return 128
	}
	p.set(ctx, c.Name, func(s *state) {
		s.pid, s.ready = cmd.Process.Pid, c.ReadinessProbe == nil
		started := c.StartupProbe == nil
		s.Started, s.State = &started, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}
	})
	ended := make(chan struct{})
	live, stop := context.WithCancel(ctx)
	go p.probes(live, c)
	go p.terminate(live, c, cmd.Process, ended)
	code := exitCode(cmd.Wait())
	close(ended)
	stop()
	p.terminated(ctx, c.Name, code, began)
	return code
}

func (p *pod) terminated(ctx context.Context, name string, code int32, began time.Time) {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	p.set(ctx, name, func(s *state) {
		if s.State.Running != nil {
			s.RestartCount++
		}
		no := false
		s.pid, s.ready, s.Started = 0, false, &no
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: metav1.NewTime(began), FinishedAt: metav1.Now()}}
		s.LastTerminationState = s.State
	})
}

func exitCode(err error) int32 {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int32(128 + status.Signal())
	}
	return int32(exit.ExitCode())
}

// terminate ends the container when the pod is deleted: the hook before that, SIGTERM, and SIGKILL
// when the grace period is over.
func (p *pod) terminate(ctx context.Context, c *corev1.Container, process *os.Process, ended <-chan struct{}) {
	var now *corev1.Pod
	for now = p.deleted(); now == nil; now = p.deleted() {
		if !pause(ctx, tick) {
			return
		}
	}
	limit := time.NewTimer(time.Duration(*now.DeletionGracePeriodSeconds) * time.Second)
	defer limit.Stop()
	if l := c.Lifecycle; l != nil && l.PreStop != nil {
		if l.PreStop.Sleep == nil {
			p.node.fail("%s has a hook that this test does not know", c.Name)
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(time.Duration(l.PreStop.Sleep.Seconds) * time.Second):
		}
	}
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-limit.C:
		p.node.fail("%s/%s did not end in its grace period", p.spec.Namespace, p.spec.Name)
		_ = process.Kill()
	}
}

// deleted returns the pod if somebody deleted it, else nil.
func (p *pod) deleted() *corev1.Pod {
	now, err := p.node.pods.Pods(p.spec.Namespace).Get(p.spec.Name)
	switch {
	case apierrors.IsNotFound(err), err == nil && now.UID != p.spec.UID:
		gone, none := p.spec.DeepCopy(), int64(0)
		gone.DeletionGracePeriodSeconds = &none
		return gone
	case err == nil && now.DeletionTimestamp != nil:
		return now
	}
	return nil
}

// remove reports that nothing is left of the pod, after which the API server forgets it.
func (p *pod) remove(ctx context.Context) {
	none, uid := int64(0), p.spec.UID
	err := p.node.client.CoreV1().Pods(p.spec.Namespace).Delete(ctx, p.spec.Name, metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		p.node.fail("removing %s: %v", p.spec.Name, err)
	}
}

// box is the container as the pod wants it.
func (p *pod) box(ctx context.Context, c *corev1.Container) (*box, error) {
	if name, _, _ := strings.Cut(path.Base(c.Image), ":"); name != "rshub" {
		return nil, fmt.Errorf("there is no image %s", c.Image)
	}
	b := &box{Network: filepath.Join("/run/netns", string(p.spec.UID)), Root: p.node.image, Host: p.spec.Name, Dir: "/var/lib/rshub", UID: 65532, GID: 65532} // as the Dockerfile has it
	var err error
	if b.Scratch, err = os.MkdirTemp(p.dir, "container-"); err != nil {
		return nil, err
	}
	if s := p.spec.Spec.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			b.UID = int(*s.RunAsUser)
		}
		if s.RunAsGroup != nil {
			b.GID = int(*s.RunAsGroup)
		}
		if s.FSGroup != nil {
			b.Groups = []int{int(*s.FSGroup)}
		}
	}
	if s := c.SecurityContext; s != nil {
		b.ReadOnly = s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem
		b.NoNew = s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation
		b.NoCaps = s.Capabilities != nil && slices.Contains(s.Capabilities.Drop, "ALL")
	}
	env, err := p.env(ctx, c)
	if err != nil {
		return nil, err
	}
	for name, value := range env {
		b.Env = append(b.Env, name+"="+value)
	}
	expand := expansion.MappingFuncFor(env)
	for _, part := range slices.Concat(c.Command, c.Args) {
		b.Command = append(b.Command, expansion.Expand(part, expand))
	}
	if c.Command == nil {
		return nil, fmt.Errorf("%s has no command", c.Name)
	}
	for _, m := range c.VolumeMounts {
		b.Mounts = append(b.Mounts, mount{From: p.mounts[m.Name], To: m.MountPath, ReadOnly: m.ReadOnly})
	}
	for name, text := range map[string]string{
		"/etc/resolv.conf": fmt.Sprintf("nameserver %s\nsearch %s.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n", dnsIP, p.spec.Namespace),
		"/etc/hosts":       fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", p.ip, p.spec.Name),
		"/etc/hostname":    p.spec.Name + "\n",
	} {
		file := filepath.Join(p.dir, path.Base(name))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
		b.Mounts = append(b.Mounts, mount{From: file, To: name})
	}
	return b, nil
}

// env is the environment of a container.
func (p *pod) env(ctx context.Context, c *corev1.Container) (map[string]string, error) {
	all := map[string]string{"PATH": "/", "ZONEINFO": "/usr/share/zoneinfo.zip", "HOSTNAME": p.spec.Name, "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
	if len(c.EnvFrom) > 0 {
		return nil, errors.New("envFrom is something that this test does not know")
	}
	for _, e := range c.Env {
		from := e.ValueFrom
		value, err := expansion.Expand(e.Value, expansion.MappingFuncFor(all)), error(nil)
		switch {
		case from == nil:
		case from.FieldRef != nil:
			value, err = p.field(from.FieldRef.FieldPath)
		case from.SecretKeyRef != nil:
			s, failed := p.node.client.CoreV1().Secrets(p.spec.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{})
			if err = failed; err == nil {
				value = string(s.Data[from.SecretKeyRef.Key])
			}
		default:
			err = fmt.Errorf("%s is from something that this test does not know", e.Name)
		}
		if err != nil {
			return nil, err
		}
		all[e.Name] = value
	}
	return all, nil
}

func (p *pod) field(name string) (string, error) {
	switch name {
	case "metadata.name":
		return p.spec.Name, nil
	case "metadata.namespace":
		return p.spec.Namespace, nil
	case "metadata.uid":
		return string(p.spec.UID), nil
	case "status.podIP":
		return p.ip, nil
	case "spec.nodeName":
		return p.spec.Spec.NodeName, nil
	}
	return "", fmt.Errorf("%s is a field that this test does not know", name)
}

// set changes the state of a container, and reports it.
func (p *pod) set(ctx context.Context, name string, change func(*state)) {
	p.mu.Lock()
	s := p.state[name]
	if s == nil {
		s = &state{}
		p.state[name] = s
	}
	change(s)
	s.Ready = s.ready && s.State.Running != nil && s.Started != nil && *s.Started
	if s.State.Running != nil {
		p.phase = corev1.PodRunning
	}
	p.mu.Unlock()
	p.report(ctx)
}

// report writes the status of the pod.
func (p *pod) report(ctx context.Context) {
	p.mu.Lock()
	status := corev1.PodStatus{Phase: p.phase, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}}, HostIP: gateway, HostIPs: []corev1.HostIP{{IP: gateway}}, ObservedGeneration: p.spec.Generation, StartTime: p.spec.Status.StartTime}
	ready := corev1.ConditionTrue
	for _, c := range p.spec.Spec.Containers {
		s := p.state[c.Name]
		if s == nil {
			s = &state{}
		}
		s.Name, s.Image, s.ImageID, s.ContainerID = c.Name, c.Image, c.Image, "process://"+string(p.spec.UID)
		status.ContainerStatuses = append(status.ContainerStatuses, s.ContainerStatus)
		if !s.Ready || p.phase != corev1.PodRunning {
			ready = corev1.ConditionFalse
		}
	}
	p.mu.Unlock()
	now := metav1.Now()
	if status.StartTime == nil {
		status.StartTime = &now
		p.spec.Status.StartTime = &now
	}
	for of, is := range map[corev1.PodConditionType]corev1.ConditionStatus{corev1.PodInitialized: corev1.ConditionTrue, corev1.ContainersReady: ready, corev1.PodReady: ready} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: of, Status: is, LastTransitionTime: now})
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.spec.UID}, "status": status})
	if err != nil {
		p.node.fail("%v", err)
		return
	}
	_, err = p.node.client.CoreV1().Pods(p.spec.Namespace).Patch(ctx, p.spec.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		p.node.fail("the status of %s: %v", p.spec.Name, err)
	}
}
