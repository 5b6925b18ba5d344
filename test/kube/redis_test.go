package kube

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// redis starts a Redis outside of the pods, and makes a Service redis that leads to it.
func (c *cluster) redis(t *testing.T, namespace string) {
	t.Helper()
	port := strconv.Itoa(20000 + c.node.number())
	cmd := exec.Command("redis-server", "--bind", gateway, "--port", port, "--protected-mode", "no", "--save", "", "--appendonly", "no", "--dir", t.TempDir()) //nolint:noctx // killed below
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, 10*time.Second, "Redis answers", func() error {
		return command(t.Context(), "redis-cli", "-h", gateway, "-p", port, "ping")
	})
	c.object(t, namespace, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: redis}, spec: {ports: [{name: redis, port: 6379}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: redis, labels: {kubernetes.io/service-name: redis}}, addressType: IPv4,
  ports: [{name: redis, port: %s}], endpoints: [{addresses: [%s], conditions: {ready: true}}]}`, port, gateway))
}
