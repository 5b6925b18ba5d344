package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demoRun is `rshub demo` in a folder.
type demoRun struct {
	t         *testing.T
	dir, temp string
	cmd       *exec.Cmd
	out, told *output
}

// startDemo starts a demo and waits until it asks for changes.
func startDemo(t *testing.T, dir string, args ...string) *demoRun {
	t.Helper()
	d := &demoRun{t: t, dir: dir, temp: t.TempDir(), out: &output{}, told: &output{}}
	d.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary, append([]string{"demo"}, args...)...)
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = dir, d.out, d.told
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + d.temp}
	must(t, d.cmd.Start())
	t.Cleanup(func() { _ = d.cmd.Process.Kill(); _ = d.cmd.Wait() }) // unless it has ended
	d.await("Now change something in ")
	return d
}

// await waits until a line is there that holds all that is wanted.
func (d *demoRun) await(want ...string) {
	d.t.Helper()
	eventually(d.t, time.Minute, func() error {
		for line := range strings.Lines(d.out.String()) {
			if containsAll(line, want) {
				return nil
			}
		}
		return fmt.Errorf("no line holds %q:\n%s%s", want, d.out, d.told)
	})
}

func containsAll(s string, want []string) bool {
	for _, w := range want {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

func (d *demoRun) data(name string) string { return filepath.Join(d.dir, "demo-data", name) }

func (d *demoRun) write(name, text string) {
	d.t.Helper()
	must(d.t, os.WriteFile(d.data(name), []byte(text), 0o600))
}

// same demands that the copy is the folder.
func (d *demoRun) same() {
	d.t.Helper()
	if err := sameTrees(d.data(""), filepath.Join(d.dir, "demo-copy")); err != nil {
		d.t.Error(err)
	}
}

// end asks the demo to end, and demands that nothing is left of it but the folders.
func (d *demoRun) end() {
	d.t.Helper()
	must(d.t, d.cmd.Process.Signal(syscall.SIGTERM))
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("the demo ended with %v:\n%s%s", err, d.out, d.told)
	}
	if got := d.told.String(); got != "" {
		d.t.Errorf("the demo wrote to standard error: %s", got)
	}
	if left, err := os.ReadDir(d.temp); err != nil || len(left) > 0 {
		d.t.Errorf("the demo left %v in the folder for temporary files (%v)", left, err)
	}
}

// README's first command in an empty folder, and the lines that README shows.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := startDemo(t, t.TempDir())
	d.same()
	d.write("hello.txt", "hello\n")
	d.await("created hello.txt")
	d.write("a.txt", "Hello, everybody!\n")
	d.await("updated a.txt")
	must(t, os.Remove(d.data("README.txt")))
	d.await("deleted README.txt")
	d.same()
	d.end()

	readme, err := os.ReadFile("../../README.md")
	must(t, err)
	shown := regexp.MustCompile("(?s)```\n(A hub, a Source .*?)```").FindSubmatch(readme)
	if shown == nil {
		t.Fatal("README does not show what the demo prints")
	}
	if want, got := form(string(shown[1])), form(d.out.String()); got != want {
		t.Errorf("the demo prints\n%s\nand README shows\n%s", got, want)
	}
}

// form is what the demo prints without what differs from run to run.
func form(lines string) string {
	for _, change := range [][2]string{{`(?m)^\d\d:\d\d:\d\d `, "TIME "}, {`in \d+ ms`, "in N ms"}, {`127\.0\.0\.1:\d+`, "ADDRESS"}} {
		lines = regexp.MustCompile(change[0]).ReplaceAllString(lines, change[1])
	}
	return lines
}

// A second demo in the same folder goes on with what is there, as does one that
// finds the ports in use that it likes best.
func TestDemoAgain(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"8080", "8081", "8090", "8095"} {
		// Another demo of these tests gives it back soon. Who has it for longer keeps it.
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:"+port); err == nil {
				defer func() { _ = l.Close() }()
				break
			}
		}
	}
	dir := t.TempDir()
	d := startDemo(t, dir)
	if got := form(d.out.String()); strings.Contains(d.out.String(), ":8080/") || !strings.Contains(got, "hub          http://ADDRESS/") {
		t.Errorf("with its ports in use the demo prints %s", d.out)
	}
	d.write("b.txt", "b")
	d.await("created b.txt", " copied in ")
	d.end()

	must(t, os.Remove(d.data("b.txt")))
	d.write("a.txt", "changed meanwhile")
	d = startDemo(t, dir)
	d.await("baseline: 3 files, 1 of an earlier demo deleted; the copy is in sync")
	d.same()
	for n := range 12 { // as often as a reader likes
		name := fmt.Sprintf("%d\n.txt", n)
		d.write(name, "again and again")
		d.await(fmt.Sprintf(`created "%d\n.txt"`, n), " copied in ")
		must(t, os.Remove(d.data(name)))
		d.await(fmt.Sprintf(`deleted "%d\n.txt"`, n), " deleted in ")
	}
	d.end()
}

// A demo never deletes what no demo made.
func TestDemoRefusesForeignFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "mine"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "mine", "thesis.txt"), nil, 0o600))
	for args, want := range map[string]string{
		"--copy mine":                     "has files that are not from a demo",
		"--data mine --copy mine/copy":    "one is inside the other",
		"--data . --copy mine":            "one is inside the other",
		"--data mine --copy mine":         "one is inside the other",
		"--data mine/thesis.txt --copy c": "thesis.txt",
	} {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"demo"}, strings.Fields(args)...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		wrong := 1
		if strings.Contains(want, "inside") {
			wrong = 2 // whatever is in the folders
		}
		if code := cmd.ProcessState.ExitCode(); err == nil || code != wrong || !strings.Contains(string(out), want) {
			t.Errorf("rshub demo %s ended with %d: %s", args, code, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "mine", "thesis.txt")); err != nil {
		t.Error(err)
	}
}
