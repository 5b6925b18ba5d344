package destination

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/disk"
)

// The state of a copy belongs to one process. Another process that wants to read it makes
// a folder in it, with a file that requests a snapshot. The owner of the state writes the
// snapshot there. An audit of a snapshot sees unfinished work, so it checks its findings
// again, with what the Source and the owner know then.
const (
	snapshotPrefix = "audit-"
	wantName       = "want"
	lendEvery      = 250 * time.Millisecond
	lendPatience   = 30 * time.Second
	snapshotMax    = 24 * time.Hour // older snapshots were left behind
	justNow        = time.Minute    // a partial that was written since then is being fetched
)

// lookAgain are the waits before findings of an audit are checked again.
var lookAgain = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}

// serveSnapshots writes the snapshots that are requested, until ctx ends.
func (c *Copy) serveSnapshots(ctx context.Context) {
	for ok := true; ok; ok = clock.Sleep(ctx, lendEvery) {
		for _, want := range disk.Match(c.o.StateDir, snapshotPrefix+"*/"+wantName) {
			if err := c.snapshot(filepath.Dir(want)); err != nil && ctx.Err() == nil {
				c.log.Warn("a snapshot for an audit could not be made", "event", "snapshot_failed", "error", err)
			}
			_ = os.Remove(want) // after a failure the other process must not wait
		}
	}
}

func (c *Copy) snapshot(dir string) error {
	return atomicfile.Write(filepath.Join(dir, stateFile), atomicfile.Options{Durability: atomicfile.Volatile}, c.state.db.CopyTo)
}

// openBeside opens a snapshot of the state that another process has.
func (c *Copy) openBeside() error {
	dir, err := requestSnapshot(c.o.StateDir)
	if err != nil {
		return err
	}
	c.live, c.temp, c.o.StateDir, c.o.DryRun = c.o.StateDir, dir, dir, true
	c.state, err = openState(dir, c.space)
	return err
}

// openReadOnly opens a copy of the state, in a temporary folder, since nothing can be written where the state is.
func (c *Copy) openReadOnly() error {
	dir, err := os.MkdirTemp("", "rssub-audit-")
	if err != nil {
		return err
	}
	from := c.o.StateDir
	c.temp, c.o.StateDir, c.o.DryRun = dir, dir, true
	if err := boltfile.Copy(filepath.Join(dir, stateFile), filepath.Join(from, stateFile)); err != nil {
		if errors.Is(err, ErrInUse) {
			err = fmt.Errorf("%w: audit the copy where %s can be written, so that the other process makes a snapshot of the state", err, from)
		}
		return err
	}
	c.state, err = openState(dir, c.space)
	return err
}

// isReadOnly reports whether something could not be written because nothing can be written there.
func isReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// requestSnapshot requests a snapshot from the process that has the state, and returns its
// folder.
func requestSnapshot(state string) (dir string, err error) {
	if dir, err = os.MkdirTemp(state, snapshotPrefix); err != nil {
		return "", err
	}
	want := filepath.Join(dir, wantName)
	if err = os.WriteFile(want, nil, 0o600); err == nil {
		for deadline := time.Now().Add(lendPatience); time.Now().Before(deadline); time.Sleep(lendEvery / 5) {
			if _, err = os.Stat(filepath.Join(dir, stateFile)); err == nil {
				return dir, nil
			}
		}
		err = fmt.Errorf("%s %w, which did not answer within %v; end that process", state, ErrInUse, lendPatience)
	}
	_ = os.RemoveAll(dir) // of no use
	return "", err
}

// renewSnapshot requests a snapshot of the present state.
func (c *Copy) renewSnapshot() error {
	dir, err := requestSnapshot(c.live)
	if err != nil {
		return err
	}
	if err := c.state.reopen(dir); err != nil {
		_ = os.RemoveAll(dir) // as above
		return err
	}
	_ = os.RemoveAll(c.temp)
	c.temp, c.o.StateDir = dir, dir
	return nil
}

// cleanSnapshots removes snapshots that were left behind.
func (c *Copy) cleanSnapshots() {
	for _, dir := range disk.Match(c.o.StateDir, snapshotPrefix+"*") {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > snapshotMax {
			_ = os.RemoveAll(dir) // the next run tries again
		}
	}
}

// isFetched reports whether a resource is being fetched right now: by another process, or while the
// copy is followed.
func (c *Copy) isFetched(url string) bool {
	if c.live == "" {
		return c.reconciler.claims.has(url)
	}
	info, err := c.tree.root.Stat(partialName(url))
	return err == nil && time.Since(info.ModTime()) < justNow
}

// looksAt reports whether the audit includes a resource or file.
func (a *audit) looksAt(name string) bool {
	if a.only == nil {
		return true
	}
	_, ok := a.only[keyOf(name)]
	return ok
}

// auditBeside audits a copy that another process works on. It checks its findings again, a
// few times within some seconds, and reports those that stay.
func (c *Copy) auditBeside(ctx context.Context, repair bool) (AuditReport, error) {
	if repair {
		return AuditReport{}, fmt.Errorf("destination: %s %w: a repair needs the copy for itself; end that process", c.live, ErrInUse)
	}
	a, err := c.audit(ctx, false, nil)
	if err == nil {
		_, err = a.recheck(ctx, lookAgain, c.renewSnapshot)
	}
	return a.report, err
}

// amend replaces the findings by those that stay.
func (a *audit) amend(again *audit) {
	r, now := &a.report, &again.report
	r.Equal, r.Bytes, r.Unverifiable = r.Equal+now.Equal, r.Bytes+now.Bytes, r.Unverifiable+now.Unverifiable
	r.Missing, r.Differing, r.Extra, r.UnderWay, r.InSync = now.Missing, now.Differing, now.Extra, now.UnderWay, now.InSync
	r.Findings = append(slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.What != Unverifiable }), now.Findings...)
	r.AsOf, r.Took = now.AsOf, time.Since(r.Began)
	for i := range now.Sets {
		s := &now.Sets[i]
		if k := slices.IndexFunc(r.Sets, func(was SetAudit) bool { return was.Set == s.Set }); k >= 0 {
			s.Equal, s.Unverifiable = s.Equal+r.Sets[k].Equal, s.Unverifiable+r.Sets[k].Unverifiable
		}
	}
	r.Sets, a.problems = now.Sets, again.problems
}
