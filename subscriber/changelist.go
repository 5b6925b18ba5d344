package subscriber

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// part is what a Change List has between two instants.
type part struct {
	changes []resourcesync.Entry // in the order of the list
	untimed prefix               // all of them, where none has a time
	// until is how far the list is complete, as far as it can be told: at least the
	// last of changes.
	until time.Time
}

// readPart reads what a list has from an instant on, and where the job has a target
// or a limit, not after that.
func readPart(ctx context.Context, client Doer, l changeList, from time.Time, limit ListLimit, job *repairJob) (part, error) {
	p := part{until: from}
	d, err := openLimited(ctx, client, l.url, limit.Entries)
	if err != nil {
		return p, err
	}
	defer d.end()
	if begins := d.head.From; begins.After(l.from) && begins.After(from) && !l.from.IsZero() {
		return p, &tooOldError{l.url, begins} // its index says otherwise
	}
	timed, beyond, limited := false, false, false
	settled := map[string]int{} // how many changes came before one that was handed on, by resource
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
			settled[e.Loc] = len(p.changes)
		}
		switch {
		case !job.target.IsZero() && e.Datetime.After(job.target):
			beyond = true
		case !job.limit.IsZero() && e.Datetime.After(job.limit):
			limited = true
		case !e.Datetime.Before(from):
			p.changes = append(p.changes, e)
			if e.Datetime.After(p.until) {
				p.until = e.Datetime
			}
		}
	}
	if timed {
		p.untimed = prefix{}
	}
	p.changes = inPlace(p.changes, settled)
	head, _ := d.Head() // complete by now
	switch {
	case beyond:
		p.until = job.target
	case limited:
	case head.Until.After(p.until):
		p.until = head.Until
	case !job.beyond.IsZero() && d.modified.After(job.beyond):
		p.until = job.target // it was written after all that was in between
	}
	return p, nil
}

// inPlace leaves out those changes without a time behind which the list has one of the
// same resource that was handed on before: they keep their place before that. Settled
// says how many changes came before the last such one of each resource.
func inPlace(changes []resourcesync.Entry, settled map[string]int) []resourcesync.Entry {
	if len(settled) == 0 {
		return changes
	}
	kept := changes[:0]
	for i := range changes {
		if !changes[i].Datetime.IsZero() || i >= settled[changes[i].Loc] {
			kept = append(kept, changes[i])
		}
	}
	return kept
}

// readList hands on what a list has after the tail. It returns how many changes,
// and how far the list is complete.
func (r *repairer) readList(ctx context.Context, l changeList, job *repairJob) (n int, until time.Time, err error) {
	from, err := r.inbox.until()
	if err != nil {
		return 0, until, err
	}
	p, err := readPart(ctx, r.o.Client, l, from, ListLimit{r.o.MaxEntries, r.large}, job)
	if err != nil {
		return 0, until, err
	}
	if p.untimed.n > 0 {
		if p.changes, err = r.unseen(l.url, p.changes); err != nil {
			return 0, until, err
		}
	}
	last := from
	for i := range p.changes {
		if d := p.changes[i].Datetime; d.After(last) {
			last = d
		}
	}
	if n, err = r.inbox.appendAll(p.changes, from, last, job); err != nil {
		return n, until, err
	}
	if p.untimed.n > 0 {
		err = r.saw(l.url, p.untimed)
	}
	return n, p.until, err
}

// prefix is how a list without times begins: some libraries write such lists, to
// which changes are only ever added.
type prefix struct {
	n    int
	sums []string // of the first 1, 2, ... n entries; only the last is kept on disk
}

func (p *prefix) add(e *resourcesync.Entry) {
	var before string
	if p.n > 0 {
		before = p.sums[p.n-1]
	}
	sum := sha256.Sum256([]byte(before + "\n" + asWritten(e) + "\n" + string(e.Change) + "\n" + resourcesync.FormatDatetime(e.LastMod)))
	p.sums = append(p.sums, hex.EncodeToString(sum[:16]))
	p.n++
}

// seenPrefix is how far a list without times was handed on.
type seenPrefix struct {
	N   int    `json:"n"`
	Sum string `json:"sum"`
}

func untimedKey(url string) []byte { return []byte("untimed:" + url) }

// unseen leaves those changes of a list without times that were not handed on yet:
// all, where it does not begin any more as it did.
func (r *repairer) unseen(url string, changes []resourcesync.Entry) ([]resourcesync.Entry, error) {
	var seen seenPrefix
	err := r.inbox.state.view(func(tx *boltfile.Tx) error {
		_, err := getJSON(tx.Bucket(metaBucket), untimedKey(url), &seen)
		return err
	})
	if err != nil || seen.N == 0 || seen.N > len(changes) {
		return changes, err
	}
	var p prefix
	for i := range changes[:seen.N] {
		p.add(&changes[i])
	}
	if p.sums[seen.N-1] != seen.Sum {
		return changes, nil
	}
	return changes[seen.N:], nil
}

func (r *repairer) saw(url string, p prefix) error {
	return r.inbox.update(func(tx *boltfile.Tx) error {
		return putJSON(tx.Bucket(metaBucket), untimedKey(url), seenPrefix{p.n, p.sums[p.n-1]})
	})
}
