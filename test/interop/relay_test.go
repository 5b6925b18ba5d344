package interop

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rshub/rshub/test/ports"
)

const relayDoes = "the example for `rspub relay` publishes 300 changes, starts before the relay, goes on over its `kill -9`, and sends all again: each is in the Change List once, in order; a change that is wrong ends it"

var relayRows = []row{
	{"Java", relayDoes, relayExample("java", "Publish.java", func(i int) string { return fmt.Sprintf("%d updated %s%d\n", i, relayed, i) })},
	{"PHP", relayDoes, relayExample("php", "publish.php", func(i int) string {
		return fmt.Sprintf("{\"id\":\"%d\",\"change\":\"updated\",\"url\":\"%s%d\"}\n", i, relayed, i)
	})},
}

// relayed is how the addresses begin that the examples publish; that of a wrong change does not.
const relayed = "https://example.org/"

var locOf = regexp.MustCompile(`<loc>(.*?)</loc>`)

func relayExample(program, file string, line func(i int) string) func(t *testing.T, c *checks) string {
	return func(t *testing.T, c *checks) string {
		needs(t, program)
		example, err := filepath.Abs(filepath.Join("../../docs/examples/relay", file))
		must(t, err)
		dir, submit, public := t.TempDir(), ports.Addr(), ports.Addr()
		const changes = 300
		var lines strings.Builder
		var want []string
		for i := range changes {
			lines.WriteString(line(i))
			want = append(want, fmt.Sprint(relayed, i))
		}
		publish := func(lines string) *process {
			name := filepath.Join(dir, "lines")
			must(t, os.WriteFile(name, []byte(lines), 0o600))
			in, err := os.Open(name)
			must(t, err)
			t.Cleanup(func() { _ = in.Close() })
			return startWithInput(t, in, dir, nil, program, example, "http://"+submit+"/")
		}
		relay := func() *process {
			return start(t, dir, nil, command("rspub"), "relay", "--listen", submit, "--public-listen", public, "--public-url", "http://"+public+"/",
				"--resource-url", relayed, "--state-dir", filepath.Join(dir, "state"), "--every", "20ms", "--log-format", "json")
		}
		ends := func(p *process, code int) {
			t.Helper()
			<-p.done
			if got := p.cmd.ProcessState.ExitCode(); (got != 0) != (code != 0) {
				t.Fatalf("it ended with %d:\n%s", got, tail(p.out.String()))
			}
		}
		p := publish(lines.String())
		p.says("waiting for the relay")
		c.ok("it waits for the relay")
		r := relay()
		p.says("\n100 ")
		_ = syscall.Kill(r.cmd.Process.Pid, syscall.SIGKILL)
		<-r.done
		relay()
		ends(p, 0)
		c.ok("it goes on after the relay was killed")
		ends(publish(lines.String()), 0)
		eventually(t, func() error {
			a, err := try(t.Context(), http.DefaultClient, http.MethodGet, "http://"+public+"/changelist.xml", nil)
			if err != nil {
				return err
			}
			var got []string
			for _, loc := range locOf.FindAllStringSubmatch(string(a.body), -1) {
				got = append(got, loc[1])
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("the Change List has %d changes, and they are not these %d in order:\n%s", len(got), changes, tail(string(a.body)))
			}
			return nil
		})
		c.ok("each change is published once, in order")
		wrong := publish(strings.Replace(line(changes), relayed, "https://elsewhere.example/", 1))
		ends(wrong, 1)
		wrong.says("elsewhere.example")
		c.ok("it ends, and says why, where a change is wrong")
		version, _, _ := strings.Cut(runs(t, dir, nil, program, "--version"), "\n")
		return regexp.MustCompile(`\d+[.\d]*`).FindString(version)
	}
}
