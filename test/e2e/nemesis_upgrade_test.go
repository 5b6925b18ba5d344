package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/test/redistest"
)

// before is the commit of the version before the one whose format is the newest. Hubs of
// both work on one store until the upgrade is finished.
const before = "d1f9417ce5b8"

// The promises of design section 9 while hubs are upgraded and taken back to the version
// before, again and again, and then the upgrade is finished.
func TestNemesisUpgrade(t *testing.T) {
	t.Parallel()
	m := newNemesis(t)
	old := versionBefore(t)
	m.binary = old
	m.addHub()
	m.last = m.finishFault(old)
	m.run(append(m.hubFaults(), m.upgradeFault(old), m.upgradeFault(old)))
}

// The same with a fleet of both versions on one Redis.
func TestNemesisUpgradeRedis(t *testing.T) {
	t.Parallel()
	m := newNemesis(t)
	old := versionBefore(t)
	m.binary = old
	redis := redistest.Standalone(t)
	p := newProxy(t, redis.Addr())
	m.addRedisHubs(3, "redis://"+p.addr())
	m.last = m.finishFault(old)
	m.run(append(append(m.hubFaults(), m.upgradeFault(old), m.upgradeFault(old), m.upgradeFault(old)), m.standaloneFaults(redis, p)...))
}

// upgradeFault stops a hub, with or without warning, and starts its other version.
func (m *nemesis) upgradeFault(old string) fault {
	return fault{name: "hub goes to the other version", ofHub: true, begin: func() func() {
		h := m.someHub()
		if m.rnd.IntN(2) == 0 {
			h.kill()
		} else {
			h.terminate()
		}
		if h.binary == old {
			h.binary = ""
		} else {
			h.binary = old
		}
		return h.start
	}}
}

// finishFault upgrades all hubs and finishes the upgrade, which breaks off the first time.
// After that the version before refuses the store.
func (m *nemesis) finishFault(old string) *fault {
	return &fault{name: "the upgrade is finished", ofHub: true, begin: func() func() {
		for _, h := range m.hubs {
			h.terminate()
			h.binary = ""
			h.start()
		}
		m.awaitReady()
		finish := func() (string, error) {
			out, err := exec.CommandContext(m.t.Context(), binary, "upgrade", "finish", "--yes", "--admin-url", "http://"+m.hubs[0].admin).CombinedOutput()
			return string(out), err
		}
		var broken sync.WaitGroup
		broken.Go(func() { _, _ = finish() })
		time.Sleep(m.between(0, m.lease))
		m.hubs[0].kill()
		broken.Wait()
		m.hubs[0].start()
		eventually(m.t, time.Minute, func() error {
			if out, err := finish(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		last := m.hubs[len(m.hubs)-1]
		last.kill()
		m.refuses(old, last)
		return last.start
	}}
}

// refuses starts the version before on the store of a hub, which must not work.
func (m *nemesis) refuses(old string, h *hub) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, old, h.serve()...).CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(out), "newer version") {
		m.t.Errorf("the version before says about an upgraded store: %v\n%s", err, out)
	}
}

var buildBefore = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(binary), "before")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	build := exec.CommandContext(context.Background(), "sh", "-ec", `
		git -C ../.. archive "$1" | tar -x -C "$2"
		cd "$2" && CGO_ENABLED=0 go build -trimpath -o rshub-before ./cmd/rshub`, "sh", before, dir)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building commit %s: %w\n%s", before, err, out)
	}
	return filepath.Join(dir, "rshub-before"), nil
})

// versionBefore is the binary of the version before. A store that it made has the previous
// format.
func versionBefore(t *testing.T) string {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", before+"^{commit}").Run(); err != nil {
		t.Skipf("commit %s is not here, as in a shallow clone", before)
	}
	path, err := buildBefore()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
