package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// README's "Try it" as it stands there, on other ports: the callback, the curl
// lines, and what they say.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	h := startHub(t)
	addr := ports.Addr()
	elsewhere := strings.NewReplacer("http://localhost:8080/", h.url(), "127.0.0.1:8099", addr, "127.0.0.1:8081", h.admin)

	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if rest, ok := strings.CutPrefix(block[1], "go run ./cmd/rshub callback "); ok {
			callbackCommand(t, addr, strings.Fields(elsewhere.Replace(rest)))
		}
		if strings.HasPrefix(block[1], "curl") {
			commands = append(commands, elsewhere.Replace(block[1]))
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

// README's three commands as they stand there, on other ports: what is put in one
// folder appears in the other.
func TestReadmeThreeCommands(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	must(t, err)
	block := regexp.MustCompile("(?s)```sh\n(go run ./cmd/rshub serve --dev .*?)```\n\n(.*?)\n").FindSubmatch(readme)
	if block == nil {
		t.Fatal("README does not have the three commands")
	}
	dir := t.TempDir()
	hubAddr, sourceAddr, callback := ports.Addr(), ports.Addr(), ports.Addr()
	elsewhere := strings.NewReplacer("go run ./cmd/", filepath.Dir(binary)+"/", "http://localhost:8080/", "http://"+hubAddr+"/", "http://localhost:8090/", "http://"+sourceAddr+"/",
		"rshub serve", "rshub serve --admin-listen "+ports.Addr()+" --public-url http://"+hubAddr+"/ --listen "+hubAddr,
		"rspub serve", "rspub serve --public-url http://"+sourceAddr+"/ --listen "+sourceAddr, "rssub follow", "rssub follow --listen "+callback)
	addrs := []string{hubAddr, sourceAddr, callback}
	commands := strings.Split(strings.TrimSpace(string(block[1])), "\n")
	if len(commands) != len(addrs) {
		t.Fatalf("README has the commands %q", commands)
	}
	for i, line := range commands {
		before, serve, _ := strings.Cut(line, "go run ")
		serve, _, _ = strings.Cut("go run "+serve, "#")
		cmd := exec.CommandContext(t.Context(), "bash", "-c", before+"exec "+elsewhere.Replace(serve))
		out := &output{}
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		eventually(t, time.Minute, func() error {
			conn, err := dial(addrs[i])
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", line, err, out)
			}
			return conn.Close()
		})
		if i == 1 { // the Source has a list once it has scanned the folder
			(&chain{t: t, source: "http://" + sourceAddr + "/"}).awaitList()
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "books", "one.txt"), []byte("one"), 0o600))
	where := regexp.MustCompile("`(copy/.*?)`").FindSubmatch(block[2])
	if where == nil {
		t.Fatalf("README does not say where the copies are: %s", block[2])
	}
	name := filepath.Join(dir, strings.Replace(string(where[1]), "localhost_8090", strings.Replace(sourceAddr, ":", "_", 1), 1), "one.txt")
	eventually(t, time.Minute, func() error {
		b, err := os.ReadFile(name)
		if err == nil && string(b) != "one" {
			err = fmt.Errorf("%s has %q", name, b)
		}
		return err
	})
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
	eventually(t, time.Minute, func() error {
		conn, err := dial(addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	t.Cleanup(func() {
		eventually(t, time.Minute, func() error {
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
