package units

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/test/programs"
)

const folder = "../../deploy/systemd/"

// lines are the values of a key of a unit.
func lines(t *testing.T, unit, key string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(folder + unit + ".service")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllSubmatch(text, -1) {
		all = append(all, string(m[1]))
	}
	return all
}

// systemd-analyze sees exposure of less than 2.0 of 10.
func TestHardening(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze")
	}
	for _, unit := range []string{"rshub", "rspub", "rssub"} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=19", folder+unit+".service").CombinedOutput()
		level := regexp.MustCompile(`Overall exposure level.*`).Find(out)
		if t.Logf("%s: %s", unit, level); err != nil || level == nil {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}

// A unit's own command lines check the settings, start the program, tell that it is ready and
// lives, and end it. Without settings they start nothing.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	if err := programs.Build(dir); err != nil {
		t.Fatal(err)
	}
	hub, source := ports.Addr(), ports.Addr()
	if err := os.Mkdir(filepath.Join(dir, "books"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, unit := range []struct{ name, missing, settings string }{
		{"rshub", "public-url is missing", fmt.Sprintf("listen: %[1]s\npublic-url: http://%[1]s/\nadmin-listen: 127.0.0.1:0\nallow-cidr: 127.0.0.0/8\n", hub)},
		{"rspub", "name the folder to publish", fmt.Sprintf("listen: %[1]s\npublic-url: http://%[1]s/\ndir: %[2]s\ndev: true\nhub: http://%[3]s/\n", source, filepath.Join(dir, "books"), hub)},
		{"rssub", "--dir is missing", "source: http://" + source + "/\nlisten: 127.0.0.1:0\ndir: copy\ndev: true\n"},
	} {
		if got := lines(t, unit.name, "ConditionPathExists"); !slices.Equal(got, []string{"/etc/" + unit.name + "/" + unit.name + ".yaml"}) {
			t.Errorf("%s starts under the conditions %v", unit.name, got)
		}
		state := filepath.Join(dir, "state-"+unit.name)
		if err := os.Mkdir(state, 0o700); err != nil {
			t.Fatal(err)
		}
		here := strings.NewReplacer("/usr/bin/", dir+"/", "/etc/"+unit.name+"/", dir+"/")
		command := func(key string) *exec.Cmd {
			args := strings.Fields(here.Replace(lines(t, unit.name, key)[0]))
			cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // a signal ends it
			cmd.Dir = state
			return cmd
		}
		if out, err := command("ExecStartPre").CombinedOutput(); err == nil {
			t.Errorf("%s: without a file of settings: %s", unit.name, out)
		}
		file := filepath.Join(dir, unit.name+".yaml")
		if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, unit.name), "config", "init", file).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", unit.name, err, out)
		}
		out, err := command("ExecStartPre").CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte(unit.missing)) {
			t.Errorf("%s: with a file where nothing is filled in: %v\n%s", unit.name, err, out)
		}
		if err := os.WriteFile(file, []byte(unit.settings), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := command("ExecStartPre").CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", unit.name, err, out)
		}
		run(t, unit.name, dir, command("ExecStart"))
	}
}

// run starts a command as a service, which lives until the end of the test.
func run(t *testing.T, name, dir string, cmd *exec.Cmd) {
	t.Helper()
	socket := filepath.Join(dir, name+".sock")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=200000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := func(state string) {
		t.Helper()
		if err := manager.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		for buf := make([]byte, 100); ; {
			n, err := manager.Read(buf)
			if err != nil {
				t.Errorf("%s does not say %s: %v", name, state, err)
				return
			}
			if string(buf[:n]) == state {
				return
			}
		}
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		told("STOPPING=1")
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = manager.Close()
		if t.Failed() {
			t.Logf("%s:\n%s", name, &log)
		}
	})
	told("READY=1")
	told("WATCHDOG=1")
	if len(lines(t, name, "ExecReload")) > 0 {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		told("WATCHDOG=1")
		told("WATCHDOG=1")
	}
}
