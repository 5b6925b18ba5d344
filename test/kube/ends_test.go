package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ends installs the chart with a Source over a volume and a Destination, both behind an Ingress.
// What changes in the volume of the one comes to the volume of the other.
func (c *cluster) ends(t *testing.T) {
	defer c.node.check(t)
	const namespace = "ends"
	c.namespace(t, namespace)
	c.object(t, namespace, before["ends"])
	for i, part := range [][2]string{{"test-rshub", "hub"}, {"test-rshub-rspub", "source"}, {"test-rshub-rssub", "copy"}} {
		c.expose(t, namespace, part[0], part[1]+".example.org", fmt.Sprintf("11.22.33.%d", 50+i))
	}
	c.install(t, namespace, reachable, "--set=settings.log-level=debug",
		"--set=rspub.enabled=true", "--set=rspub.publicUrl=http://source.example.org/", "--set=rspub.resourcesClaim=resources",
		"--set=rssub.enabled=true", "--set=rssub.sourceUrl=http://source.example.org/", "--set=rssub.callbackUrl=http://copy.example.org/")
	resources, copied := c.folder(t, namespace, "resources"), c.folder(t, namespace, "copy-test-rshub-rssub-0")
	change := func(name, text string) {
		t.Helper()
		began := time.Now()
		if err := os.WriteFile(filepath.Join(resources, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, name+" is in the copy", func() error {
			found, err := filepath.Glob(filepath.Join(copied, "copy/*/*/", name))
			if err != nil || len(found) != 1 {
				return fmt.Errorf("%q (%v)", found, err)
			}
			if got, err := os.ReadFile(found[0]); err != nil || string(got) != text {
				return fmt.Errorf("it has %q (%v)", got, err)
			}
			return nil
		})
		t.Logf("%s was in the copy after %s", name, time.Since(began).Round(10*time.Millisecond))
	}
	change("one.txt", "it is new")
	change("one.txt", "it is changed")
	c.delivered(t, namespace)
	for _, name := range []string{"rspub", "rssub"} {
		c.node.pod(namespace, "test-rshub-"+name+"-0").kill(name, syscall.SIGKILL)
		change("after the end of "+name+".txt", "it is new")
	}
	c.must(t, namespace, "uninstall", "test", "--wait", "--timeout=2m")
}

// delivered checks that the hub delivered to the Destination, which could also have polled.
func (c *cluster) delivered(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, 30*time.Second, "the hub delivered", func() error {
		if log := c.node.lines(namespace, `"event":"delivery_attempt"`); !strings.Contains(log, "copy.example.org") {
			return fmt.Errorf("the log has %q", log)
		}
		return nil
	})
}

// folder is the folder behind a claim.
func (c *cluster) folder(t *testing.T, namespace, claim string) string {
	t.Helper()
	one, err := c.client.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.client.CoreV1().PersistentVolumes().Get(t.Context(), one.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return v.Spec.HostPath.Path
}
