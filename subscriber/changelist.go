package subscriber

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// part is the changes of a Change List between two instants.
type part struct {
	changes []resourcesync.Entry // in the order of the list
	untimed prefix               // all of them, if none has a time
	// until is how far the list is known to be complete: at least up to the last of
	// changes.
	until time.Time
	// later is the time of the last change after the limit of the job; zero: there is none.
	later time.Time
}

// readPart reads the changes of a list from an instant on, up to the target or limit of
// the job.
func readPart(ctx context.Context, client Doer, l changeList, from time.Time, limit ListLimit, job *repairJob) (part, error) {
	p := part{until: from}
	d, err := open(ctx, client, l.url, limit.Entries)
	if err != nil {
		return p, err
	}
	defer d.end()
	if err := d.isChangeList(); err != nil {
		return p, err
	}
	if d.head.Index {
		return p, fmt.Errorf("reading %s: it is an index within an index", d.url)
	}
	if begins := d.head.From; begins.After(l.from) && begins.After(from) && !l.from.IsZero() {
		return p, &tooOldError{l.url, begins} // its index says otherwise
	}
	timed, beyond := false, false
	reported := map[string]int{} // how many changes came before one that was handed on, by resource
	for e, err := range biglist.Entries(d, l.url, limit.Entries, limit.Large) {
		if err != nil {
			return p, fmt.Errorf("reading %s: %w", l.url, err)
		}
		if e.Datetime.IsZero() {
			p.untimed.add(&e)
			p.changes = append(p.changes, e)
			continue
		}
		timed = true
		if len(p.changes) > 0 && !e.Datetime.After(from) {
			reported[e.Loc] = len(p.changes)
		}
		switch {
		case !job.target.IsZero() && e.Datetime.After(job.target):
			beyond = true
		case !job.limit.IsZero() && e.Datetime.After(job.limit):
			p.later = clock.Later(p.later, e.Datetime)
		case !e.Datetime.Before(from):
			p.changes = append(p.changes, e)
			p.until = clock.Later(p.until, e.Datetime)
		}
	}
	if timed {
		p.untimed = prefix{}
	}
	p.changes = inPlace(p.changes, reported)
	head, _ := d.Head() // complete by now
	switch {
	case beyond:
		p.until = job.target
	case !p.later.IsZero():
	case job.hub && d.reached.After(p.until):
		p.until = d.reached
	case head.Until.After(p.until):
		p.until = head.Until
	case !job.beyond.IsZero() && d.modified.After(job.beyond):
		p.until = job.target // it was written after all that was in between
	}
	return p, nil
}

// inPlace leaves out a change without a time if the list has a later change of the same
// resource that was handed on before: both were. Reported says how many changes come before
// the last such change of each resource.
func inPlace(changes []resourcesync.Entry, reported map[string]int) []resourcesync.Entry {
	if len(reported) == 0 {
		return changes
	}
	kept := changes[:0]
	for i := range changes {
		if !changes[i].Datetime.IsZero() || i >= reported[changes[i].Loc] {
			kept = append(kept, changes[i])
		}
	}
	return kept
}

// readList hands on what a list has after the tail. It returns how many changes,
// and how far the list is complete.
func (r *repairer) readList(ctx context.Context, client Doer, l changeList, job *repairJob) (n int, until time.Time, err error) {
	from, err := r.inbox.until()
	if err != nil {
		return 0, until, err
	}
	p, err := readPart(ctx, client, l, from, ListLimit{r.o.MaxEntries, r.large}, job)
	if err != nil {
		return 0, until, err
	}
	if time.Until(p.later) > ahead {
		r.later(l.url, p.later)
	}
	if p.untimed.N > 0 {
		if job.hub {
			return 0, until, errUntimed
		}
		if p.changes, err = r.unseen(l.url, p.changes); err != nil {
			return 0, until, err
		}
	}
	last := from
	for i := range p.changes {
		last = clock.Later(last, p.changes[i].Datetime)
	}
	if n, err = r.inbox.appendAll(p.changes, from, last, job); err != nil {
		return n, until, err
	}
	if p.untimed.N > 0 {
		err = r.inbox.update(func(tx *boltfile.Tx) error {
			return tx.Bucket(metaBucket).PutJSON(untimedKey(l.url), p.untimed)
		})
	}
	return n, p.until, err
}

// laterWarner returns a function that warns once of each list with changes that are too far in the future to count.
func laterWarner(log *slog.Logger) func(list string, at time.Time) {
	var told sync.Map
	return func(list string, at time.Time) {
		if _, had := told.LoadOrStore(list, true); !had {
			log.Warn("a Change List has changes that are dated more than a day ahead of the clock of this machine, and count only when that time has come; is a clock wrong, or do these dates mean something else?",
				"event", "changes_ahead", "url", list, "datetime", at)
		}
	}
}

// prefix is the beginning of a list without times. Some libraries write such lists, and
// only append to them.
type prefix struct {
	N   int    `json:"n"`   // entries
	Sum string `json:"sum"` // over all of them
}

func (p *prefix) add(e *resourcesync.Entry) {
	sum := sha256.Sum256([]byte(p.Sum + "\n" + asWritten(e) + "\n" + string(e.Change) + "\n" + resourcesync.FormatDatetime(e.LastMod)))
	p.Sum = hex.EncodeToString(sum[:16])
	p.N++
}

// untimedKey is the key of the prefix that was handed on of a list without times.
func untimedKey(url string) []byte { return []byte("untimed:" + url) }

// unseen returns the changes of a list without times that were not handed on yet: all of
// them if the list no longer begins as it did.
func (r *repairer) unseen(url string, changes []resourcesync.Entry) ([]resourcesync.Entry, error) {
	seen, err := boltfile.Read(r.inbox.db, func(tx *boltfile.Tx) (seen prefix) {
		tx.Bucket(metaBucket).GetJSON(untimedKey(url), &seen)
		return seen
	})
	if err != nil || seen.N > len(changes) {
		return changes, err
	}
	var p prefix
	for i := range changes[:seen.N] {
		p.add(&changes[i])
	}
	if p != seen {
		return changes, nil
	}
	return changes[seen.N:], nil
}
