package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The promises of design section 9 for a hub that is restored from a backup, again and
// again: Sources send again what came after it, and no subscriber misses anything.
func TestNemesisBackup(t *testing.T) {
	t.Parallel()
	m := newNemesis(t)
	m.addHub("--give-up", nemesisGiveUp.String())
	m.run([]fault{m.backupFault(), m.backupFault(), m.killedBackupFault(), m.hubFaults()[0]})
}

// backupFault takes a backup of the running hub, kills the hub later, and restores the
// backup into a new folder. Half of the time the restore is killed as well, and run again.
func (m *nemesis) backupFault() fault {
	return fault{name: "hub restored from a backup", kind: tailLost, ofHub: true, loses: true, tail: true, begin: func() func() {
		h, file := m.hubs[0], filepath.Join(m.t.TempDir(), "backup.jsonl")
		m.rshub("backup", file, "--admin-url", "http://"+h.admin)
		time.Sleep(m.between(0, time.Second))
		h.kill()
		if err := os.RemoveAll(h.dir); err != nil {
			m.t.Fatal(err)
		}
		if m.rnd.IntN(2) == 0 {
			m.killRestore(h.dir, file)
		} else {
			m.rshub("restore", "--data-dir", h.dir, file)
		}
		return h.start
	}}
}

// killedBackupFault kills the hub while it makes a backup. The command says so, and leaves no
// file that is not whole.
func (m *nemesis) killedBackupFault() fault {
	return fault{name: "hub killed during a backup", kind: killed, ofHub: true, begin: func() func() {
		h, file := m.hubs[0], filepath.Join(m.t.TempDir(), "broken.jsonl")
		cmd := exec.CommandContext(m.t.Context(), binary, "backup", file, "--admin-url", "http://"+h.admin)
		if err := cmd.Start(); err != nil {
			m.t.Fatal(err)
		}
		time.Sleep(m.between(0, 200*time.Millisecond))
		h.kill()
		failed := cmd.Wait()
		if _, missing := os.Stat(file); (failed == nil) != (missing == nil) {
			m.t.Errorf("the backup ends with %v, its file: %v", failed, missing)
		}
		m.t.Logf("the backup broke off: %t", failed != nil)
		return h.start
	}}
}

// rshub runs a command to its good end.
func (m *nemesis) rshub(args ...string) {
	m.t.Helper()
	if out, err := exec.CommandContext(m.t.Context(), binary, args...).CombinedOutput(); err != nil {
		m.t.Fatalf("rshub %v: %v\n%s", args, err, out)
	}
}

// killRestore begins a restore, kills it as soon as its folder is there, or later, and runs it
// again. If the store refuses the second, the first has ended, and the judge sees that it is whole.
func (m *nemesis) killRestore(dir, file string) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), binary, "restore", "--data-dir", dir, file)
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	eventually(m.t, time.Minute, func() error {
		_, err := os.Stat(filepath.Join(dir, "store.db"))
		return err
	})
	time.Sleep(m.between(0, 50*time.Millisecond))
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	out, err := exec.CommandContext(m.t.Context(), binary, "restore", "--data-dir", dir, file).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("the store is not empty")) {
		m.t.Fatalf("restored again: %v\n%s", err, out)
	}
	m.t.Logf("the restore was killed before its end: %t", err == nil)
}
