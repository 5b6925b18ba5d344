package kube

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const reachable = "--set=publicUrl=http://hub.example.org/"

// life takes a release through its life, with a store of either kind. Nothing that the hub accepted
// may get lost, and every secret of a subscriber has to open to the end.
func (c *cluster) life(t *testing.T, namespace string, number, hubs int, set ...string) {
	t.Helper()
	defer c.node.check(t)
	c.namespace(t, namespace)
	if hubs > 1 {
		c.redis(t, namespace)
	}
	o := newOutside(t, c, namespace, number)
	set = append(set, reachable, "--set=tests.allowCidr="+podRange)
	c.install(t, namespace, set...)
	c.keys(t, namespace)
	c.wait(t, namespace, hubs)
	o.subscribe(t)
	o.complete(t)

	t.Run("killed", func(t *testing.T) {
		o.publishing(t, func() { c.kill(t, namespace, hubs) })
		o.complete(t)
		t.Logf("refused meanwhile: %d times", len(o.refusals()))
	})
	t.Run("upgraded", func(t *testing.T) {
		o.publishing(t, func() {
			c.must(t, namespace, slices.Concat([]string{"upgrade", "test", chart, "--wait", "--timeout=3m", "--set=settings.retention-age=48h"}, set)...)
		})
		c.setting(t, namespace, hubs, "48h")
		o.complete(t)
		c.undisturbed(t, o, namespace, hubs)
	})
	t.Run("upgraded to what cannot start", func(t *testing.T) {
		o.publishing(t, func() {
			out, err := c.helm(t.Context(), namespace, slices.Concat([]string{"upgrade", "test", chart, "--wait", "--timeout=20s", "--set=settings.retention-age=never"}, set)...)
			if err == nil {
				t.Errorf("helm upgrade waits for nothing: %s", out)
			}
			if hubs > 1 {
				c.wait(t, namespace, hubs)
			}
		})
		c.undisturbed(t, o, namespace, hubs)
	})
	t.Run("rolled back", func(t *testing.T) {
		o.publishing(t, func() { c.must(t, namespace, "rollback", "test", "1", "--wait", "--timeout=3m") })
		c.setting(t, namespace, hubs, "")
		o.complete(t)
		c.undisturbed(t, o, namespace, hubs)
	})
	t.Run("evicted", func(t *testing.T) {
		o.publishing(t, func() { c.evict(t, namespace, hubs) })
		o.complete(t)
		c.undisturbed(t, o, namespace, hubs)
	})
	t.Run("removed and installed again", func(t *testing.T) {
		c.must(t, namespace, "uninstall", "test", "--wait", "--timeout=2m")
		eventually(t, time.Minute, "no pod is left", func() error {
			left, err := c.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
			if err == nil && len(left.Items) > 0 {
				err = fmt.Errorf("%d are left", len(left.Items))
			}
			return err
		})
		c.keys(t, namespace)
		c.install(t, namespace, set...)
		o.complete(t)
	})
	c.test(t, namespace, "with the right signature")
	c.must(t, namespace, "uninstall", "test", "--wait")
}

// keys checks that the Secret of the release is there, and that nothing else is left of the Job
// that made it.
func (c *cluster) keys(t *testing.T, namespace string) {
	t.Helper()
	s, err := c.client.CoreV1().Secrets(namespace).Get(t.Context(), "test-rshub-keys", metav1.GetOptions{})
	if err != nil || s.Annotations["helm.sh/resource-policy"] != "keep" || len(s.Data) != 2 {
		t.Errorf("the Secret: %v, annotations %v, %d keys", err, s.Annotations, len(s.Data))
	}
	jobs, err1 := c.client.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
	roles, err2 := c.client.RbacV1().Roles(namespace).List(t.Context(), metav1.ListOptions{})
	if err1 != nil || err2 != nil || len(jobs.Items)+len(roles.Items) > 0 {
		t.Errorf("left of the hook: %d Jobs, %d Roles (%v, %v)", len(jobs.Items), len(roles.Items), err1, err2)
	}
}

// wait waits until so many hubs are ready, and the Service knows it.
func (c *cluster) wait(t *testing.T, namespace string, hubs int) {
	t.Helper()
	eventually(t, 2*time.Minute, fmt.Sprintf("%d hubs are ready", hubs), func() error {
		if ready := c.hubs(t, namespace); len(ready) != hubs {
			return fmt.Errorf("%d are", len(ready))
		}
		return nil
	})
	time.Sleep(2 * time.Second) // as long as the node takes for Services
}

// undisturbed checks that a Source noticed nothing. One hub on a volume is away while its pod is
// replaced.
func (c *cluster) undisturbed(t *testing.T, o *outside, namespace string, hubs int) {
	t.Helper()
	refused := o.refusals()
	if hubs == 1 {
		t.Logf("refused meanwhile: %d times", len(refused))
	} else if len(refused) > 0 {
		t.Errorf("a Source was refused meanwhile: %q\n%s", refused, c.node.lines(namespace, `"status":503`))
	}
}

// kill ends the process of a hub, and waits until it runs again in the same pod.
func (c *cluster) kill(t *testing.T, namespace string, hubs int) {
	t.Helper()
	name := slices.Min(slices.Collect(maps.Keys(c.hubs(t, namespace))))
	c.node.pod(namespace, name).kill("rshub", syscall.SIGKILL)
	eventually(t, time.Minute, "the hub runs again", func() error {
		p, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := p.Status.ContainerStatuses[0]
		if s.RestartCount != 1 || !isReady(p) || s.LastTerminationState.Terminated.ExitCode != 137 {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
	c.wait(t, namespace, hubs)
}

// setting checks that all hubs have the value of a setting.
func (c *cluster) setting(t *testing.T, namespace string, hubs int, want string) {
	t.Helper()
	c.wait(t, namespace, hubs)
	for name, p := range c.hubs(t, namespace) {
		if got := env(p, "RSHUB_RETENTION_AGE"); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// evict evicts all hubs as a drain of their nodes does: the next as soon as the budget allows it.
func (c *cluster) evict(t *testing.T, namespace string, hubs int) {
	t.Helper()
	blocked := 0
	first := slices.Sorted(maps.Keys(c.hubs(t, namespace)))
	for _, name := range first {
		eventually(t, 2*time.Minute, "the budget allows an eviction", func() error {
			err := c.client.CoreV1().Pods(namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})
			if apierrors.IsTooManyRequests(err) {
				blocked++
			}
			return err
		})
		if ready := len(c.hubs(t, namespace)); ready < hubs-1 {
			t.Errorf("only %d of %d hubs are ready", ready, hubs)
		}
	}
	if hubs > 1 && blocked == 0 {
		t.Error("the budget held up no eviction")
	}
	eventually(t, 2*time.Minute, "other pods replace those that were evicted", func() error {
		for name, p := range c.hubs(t, namespace) {
			if slices.Contains(first, name) && hubs > 1 || p.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s is there", name)
			}
		}
		return nil
	})
	c.wait(t, namespace, hubs)
}
