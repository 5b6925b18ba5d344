package kube

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// page follows docs/deploy/kubernetes.md as it is written, with helm, kubectl and rshub on the
// path: each block of values is written to values.yaml and each block of commands is run. The
// stand-in for kubelet runs no command in a pod (kubectl exec).
func (c *cluster) page(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../docs/deploy/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, version := range []string{"0.9.0", "0.9.1"} {
		c.shell(t, dir, `cp -r "$CHART" rshub && sed -i "s/^version: .*/version: `+version+`/" rshub/Chart.yaml && tar -czf rshub-chart-`+version+`.tgz rshub && rm -r rshub`)
	}
	elsewhere := strings.NewReplacer("REGISTRY/rshub", "rshub", ":PASSWORD@", "")
	first := ""
	for _, block := range regexp.MustCompile("(?s)```(sh|yaml)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		body := elsewhere.Replace(block[2])
		switch {
		case strings.HasPrefix(body, "# restore.yaml"): // its pod wants kubectl attach; test/chart checks it
		case block[1] == "sh":
			var commands []string
			for line := range strings.Lines(body) {
				if !strings.Contains(line, " exec ") {
					commands = append(commands, line)
				}
			}
			body = strings.Join(commands, "")
			t.Logf("%s\n%s", body, c.shell(t, dir, body))
			if strings.Contains(body, "helm install") {
				c.redis(t, "hubs")
			}
		case first == "":
			first = body
			if err := os.WriteFile(filepath.Join(dir, "values.yaml"), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		default: // more values, with what the first block has
			if err := os.WriteFile(filepath.Join(dir, "more.yaml"), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s\n%s", body, c.shell(t, dir, "helm upgrade hub rshub-chart-0.9.0.tgz --namespace hubs --values values.yaml --values more.yaml --wait --timeout 3m"))
		}
	}
}

// shell runs commands as a person at the cluster would, and returns what they print.
func (c *cluster) shell(t *testing.T, dir, commands string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", commands)
	folder, err := filepath.Abs(chart)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir = dir
	cmd.Env = []string{"KUBECONFIG=" + filepath.Join(c.dir, "kubeconfig"), "HOME=" + c.dir, "CHART=" + folder, "PATH=" + *servers + ":" + *image + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s\n%s\n%s", commands, err, out, c.node.printed("hubs"), c.events(t.Context(), "hubs"))
	}
	return string(out)
}
