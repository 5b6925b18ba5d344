package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// servers are the commands that go on until they are ended, with the port that each page
// has them at, or none.
var servers = map[string]string{"rssub follow": "", "rshub serve": "8080", "rspub serve": "8090", "rshub callback": "8099", "python3 -m http.server": "8000"}

// quickstart is a reader who goes through a page in an empty folder, on other ports.
type quickstart struct {
	t    *testing.T
	dir  string
	port map[string]string // by that of the page
	said map[string]*output
}

func (q *quickstart) command(script string) (*exec.Cmd, *output) {
	addr := func(port string) string { return "127.0.0.1:" + q.port[port] }
	for page, port := range q.port {
		script = strings.NewReplacer("localhost:"+page, "localhost:"+port, "localhost_"+page, "localhost_"+port, "http.server "+page, "http.server "+port).Replace(script)
	}
	script = strings.NewReplacer("rshub callback", "rshub callback --listen "+addr("8099"), "rshub try", "rshub try --listen "+addr("8098")).Replace(script)
	cmd := exec.CommandContext(q.t.Context(), "bash", "-ec", script)
	cmd.Dir = q.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"),
		"RSHUB_LISTEN="+addr("8080"), "RSHUB_PUBLIC_URL=http://localhost:"+q.port["8080"]+"/", "RSHUB_ADMIN_LISTEN="+addr("8081"), "RSHUB_ADMIN_URL=http://"+addr("8081"),
		"RSPUB_LISTEN="+addr("8090"), "RSPUB_PUBLIC_URL=http://localhost:"+q.port["8090"]+"/")
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// serve starts a block that ends with a server, and waits until it answers.
func (q *quickstart) serve(name, block string) {
	q.t.Helper()
	lines := strings.Split(strings.TrimSpace(block), "\n")
	lines[len(lines)-1] = "exec " + lines[len(lines)-1]
	cmd, out := q.command(strings.Join(lines, "\n"))
	must(q.t, cmd.Start())
	q.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	q.said[name] = out
	if servers[name] == "" {
		return
	}
	eventually(q.t, time.Minute, func() error {
		conn, err := dial("127.0.0.1:" + q.port[servers[name]])
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", block, err, out)
		}
		return conn.Close()
	})
	if name == "rspub serve" {
		(&chain{t: q.t, source: "http://localhost:" + q.port["8090"] + "/"}).awaitList()
	}
}

// run runs a block that ends by itself, and returns what it printed.
func (q *quickstart) run(block string) string {
	q.t.Helper()
	cmd, out := q.command(block)
	if err := cmd.Run(); err != nil {
		q.t.Fatalf("%s\n%v\n%s", block, err, out)
	}
	if strings.Contains(block, "hub.mode=subscribe") {
		eventually(q.t, time.Minute, func() error {
			if ls, said := q.command("rshub sub ls --state active"); ls.Run() != nil || !strings.Contains(said.String(), "active") {
				return fmt.Errorf("no subscription is active: %s", said)
			}
			return nil
		})
	}
	return out.String()
}

// Each quickstart works as it is written, and ends as it says.
func TestQuickstarts(t *testing.T) {
	t.Parallel()
	shows := func(name string, want ...string) func(q *quickstart, printed string) error {
		return func(q *quickstart, printed string) error {
			if s := q.said[name]; s != nil {
				printed = s.String()
			}
			for _, w := range want {
				if !strings.Contains(printed, w) {
					return fmt.Errorf("no %q in\n%s", w, printed)
				}
			}
			return nil
		}
	}
	for page, ends := range map[string]func(q *quickstart, printed string) error{
		"repository": shows("rshub callback", "hello.txt", `change="created"`),
		"aggregator": func(q *quickstart, printed string) error {
			_, err := os.Stat(filepath.Join(q.dir, "copy", "localhost_"+q.port["8090"], "data", "four.txt"))
			return errors.Join(err, shows("", "exit code 6")(q, printed), shows("rssub follow", "four.txt")(q, printed))
		},
		"operator": shows("", "with the right signature", "operator  127.0.0.1:"),
		"blog":     shows("rshub callback", "<title>First post</title>"),
	} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile("../../docs/start/" + page + ".md")
			must(t, err)
			if _, err := exec.LookPath("python3"); err != nil && bytes.Contains(text, []byte("python3")) {
				t.Skip("there is no python3 on this machine")
			}
			q := &quickstart{t: t, dir: t.TempDir(), port: map[string]string{}, said: map[string]*output{}}
			for _, port := range []string{"8000", "8080", "8081", "8090", "8098", "8099"} {
				_, q.port[port], err = net.SplitHostPort(ports.Addr())
				must(t, err)
			}
			printed := ""
		blocks:
			for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
				last := block[1][strings.LastIndex(strings.TrimSpace(block[1]), "\n")+1:]
				for name := range servers {
					if strings.HasPrefix(last, name) {
						q.serve(name, block[1])
						continue blocks
					}
				}
				printed += q.run(block[1])
			}
			eventually(t, time.Minute, func() error { return ends(q, printed) })
		})
	}
}
