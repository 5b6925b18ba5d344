package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// README's "Try it" as it stands there, on other ports: the callback, the curl
// lines, and what they say.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	h := startHub(t)
	addr := freeAddr(t)
	ports := strings.NewReplacer("http://localhost:8080/", h.url(), "127.0.0.1:8090", addr, "127.0.0.1:8081", h.admin)

	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if rest, ok := strings.CutPrefix(block[1], "go run ./cmd/rshub callback "); ok {
			callbackCommand(t, addr, strings.Fields(ports.Replace(rest)))
		}
		if strings.HasPrefix(block[1], "curl") {
			commands = append(commands, ports.Replace(block[1]))
		}
	}
	if len(commands) != 2 {
		t.Fatalf("README has %d blocks that begin with curl, want one that subscribes and one that publishes", len(commands))
	}
	shell(t, commands[0], "202 Accepted")
	h.active(1)
	shell(t, commands[1], "200 OK", `"duplicate":false`)
	shell(t, commands[1], "200 OK", `"duplicate":true`)
}

// callbackCommand runs `rshub callback`; at the end of the test it has to have
// shown one delivery with the right signature.
func callbackCommand(t *testing.T, addr string, args []string) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), binary, append([]string{"callback"}, args...)...) // it outlives the test, to be judged
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, func() error {
		conn, err := dial(addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	t.Cleanup(func() {
		eventually(t, 20*time.Second, func() error {
			if got := out.String(); strings.Count(got, "delivered:") != 1 || !strings.Contains(got, "(right)") {
				return fmt.Errorf("the callback shows %s", got)
			}
			return nil
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// shell runs commands as a reader would and demands that they print something.
func shell(t *testing.T, commands string, want ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-c", commands).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, s := range want {
		if !bytes.Contains(out, []byte(s)) {
			t.Errorf("%s\nprinted %s\nwithout %q", commands, out, s)
		}
	}
}

// output collects what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
