package subscriber

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// part is the changes of a Change List between two instants.
type part struct {
	url string
	// changes are in the order of the list. The first old of them were in it when it was read last, and are not before from.
	changes []resourcesync.Entry
	old     int
	timed   bool // a change has a time
	// late counts those changes that were appended since the list was read last, and are dated before what it
	// had then, and lateAt is the time of the first: the clock of the Source went back, or two of its writers were
	// not in order. What the list has of the resources in again counts after that, also if it was handed on.
	late   int
	lateAt time.Time
	again  map[string]bool
	// seen is the list up to the first change that was left out and counts soon.
	seen prefix
	// until is how far the list is known to be complete: at least up to the last of
	// changes.
	until time.Time
	// later is the time of the last change after the limit of the job; zero: there is none.
	later time.Time
}

// readPart reads the changes of a list from an instant on, up to the target or limit of
// the job. Seen is what was read of it last.
func readPart(ctx context.Context, client Doer, l changeList, from time.Time, seen prefix, limit ListLimit, job *repairJob) (part, error) {
	p := part{url: l.url, until: from, again: map[string]bool{}}
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
	var latest, reached time.Time // of the changes up to here, and of those in seen
	read := summing{sum: sha256.New()}
	n, beyond, soon := 0, false, false // soon: a change was left out that counts soon, and those after it wait for it if they are late
	reported := map[string]int{}       // how many changes came before one that was handed on, by resource
	for e, err := range biglist.Entries(d, l.url, limit.Entries, limit.Large) {
		if err != nil {
			return p, fmt.Errorf("reading %s: %w", l.url, err)
		}
		n++
		timed, left := !e.Datetime.IsZero(), false
		p.timed = p.timed || timed
		if timed && len(p.changes) > 0 && !e.Datetime.After(from) {
			reported[e.Loc] = len(p.changes)
		}
		switch {
		case timed && !job.target.IsZero() && e.Datetime.After(job.target):
			beyond, left, soon = true, true, true
		case timed && !job.limit.IsZero() && e.Datetime.After(job.limit):
			p.later, left = clock.Later(p.later, e.Datetime), true
			soon = soon || time.Until(e.Datetime) <= ahead
		case !timed, !e.Datetime.Before(from), p.again[e.Loc]:
			p.changes = append(p.changes, e)
			p.until = clock.Later(p.until, e.Datetime)
		case !soon && e.Datetime.Before(reached):
			if p.late++; p.late == 1 {
				p.lateAt = e.Datetime
			}
			p.again[e.Loc] = true
			p.changes = append(p.changes, e)
		}
		if !left {
			latest = clock.Later(latest, e.Datetime)
		}
		if !soon {
			read.add(&e)
		}
		if n == seen.N && read.prefix() == seen { // what is dated after the tail was not handed on: it was too far in the future
			p.changes = slices.DeleteFunc(p.changes, func(e resourcesync.Entry) bool { return e.Datetime.Before(from) })
			p.old, reported, reached = len(p.changes), map[string]int{}, latest
		}
	}
	p.seen, p.changes = read.prefix(), inPlace(p.changes, reported)
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

// ordered reports whether the list orders the changes, and not their times: some are late, or most come after an earlier one, and
// few after a later one, as where the clock of the Source went back. A list with the newest first is not like that.
func (p *part) ordered() bool {
	up, down := 0, 0
	var last time.Time
	for i := range p.changes {
		at := p.changes[i].Datetime
		switch {
		case at.IsZero():
			continue
		case at.Before(last):
			down++
		case at.After(last) && !last.IsZero():
			up++
		}
		last = at
	}
	return p.late > 0 || down > 0 && up > 0 && down <= up/4+1
}

// readList hands on what a list has after the tail, and what was appended to it with an earlier date. It
// returns how many changes, and how far the list is complete.
func (r *repairer) readList(ctx context.Context, client Doer, l changeList, job *repairJob) (n int, until time.Time, err error) {
	var from time.Time
	var seen prefix
	err = r.inbox.db.View(func(tx *boltfile.Tx) error {
		from, seen = r.inbox.tail(tx).Until, seenOf(tx, l.url)
		return nil
	})
	if err != nil {
		return 0, until, err
	}
	p, err := readPart(ctx, client, l, from, seen, ListLimit{r.o.MaxEntries, r.large}, job)
	if err != nil {
		return 0, until, err
	}
	if time.Until(p.later) > ahead {
		r.later(l.url, p.later)
	}
	if !p.timed && job.hub && len(p.changes) > 0 {
		return 0, until, errUntimed
	}
	if p.late > 0 {
		r.log.Warn("a Change List has new changes that are dated before older ones; they count, but is the clock of the Source right?",
			"event", "changes_behind", "url", l.url, "changes", p.late, "datetime", p.lateAt)
	}
	n, err = r.inbox.appendAll(&p, from, job)
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

// prefix is the beginning of a list, as far as it was read. Most Sources only append to a list, so what
// follows is new, also if it has no time or an earlier one.
type prefix struct {
	N   int    `json:"n"`   // entries
	Sum string `json:"sum"` // over all of them
}

// summing sums up the entries of a list while it is read.
type summing struct {
	n   int
	sum hash.Hash
}

func (s *summing) add(e *resourcesync.Entry) {
	s.n++
	_, _ = fmt.Fprintf(s.sum, "%s\n%s\n%s\n%s\n", asWritten(e), e.Change, resourcesync.FormatDatetime(e.LastMod), resourcesync.FormatDatetime(e.Datetime)) // a hash takes all
}

// prefix is that of the entries up to here.
func (s *summing) prefix() prefix { return prefix{s.n, hex.EncodeToString(s.sum.Sum(nil)[:16])} }

const seenPrefix = "seen:"

func seenKey(url string) []byte { return []byte(seenPrefix + url) }

// seenOf returns how a list began when it was read last.
func seenOf(tx *boltfile.Tx, url string) (seen prefix) {
	tx.Bucket(metaBucket).GetJSON(seenKey(url), &seen)
	return seen
}

// forget forgets how lists began that the Source does not use any more.
func (in *inbox) forget(unless []changeList) error {
	stale := func(tx *boltfile.Tx) (keys [][]byte) {
		for key := range tx.Bucket(metaBucket).From([]byte(seenPrefix)) {
			url, is := strings.CutPrefix(string(key), seenPrefix)
			if !is {
				break
			}
			if !slices.ContainsFunc(unless, func(l changeList) bool { return l.url == url }) {
				keys = append(keys, bytes.Clone(key))
			}
		}
		return keys
	}
	keys, err := boltfile.Read(in.db, stale)
	if err != nil || len(keys) == 0 {
		return err
	}
	return in.update(func(tx *boltfile.Tx) (err error) {
		for _, key := range stale(tx) {
			err = errors.Join(err, tx.Bucket(metaBucket).Delete(key))
		}
		return err
	})
}
