package subscriber

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/resourcesync"
)

// plan is the Change Lists that have what came after an instant.
type plan struct {
	root  string // the Change List, or its index
	lists []changeList
	// unproven says that a list does not tell when it begins, so that nobody can
	// say whether the lists reach back far enough.
	unproven bool
}

// changeList is one Change List; until is zero where it is open or unknown.
type changeList struct {
	url         string
	from, until time.Time
}

// makePlan finds the lists for what came after since: the Change List itself, or else
// the members of its index, or else those of the archive (DST-19). errTooOld is
// wrapped where even these begin later; the plan then is what there is.
func makePlan(ctx context.Context, client Doer, list, archive string, since time.Time) (plan, error) {
	p := plan{root: list}
	index, err := p.read(ctx, client, list, 0)
	if err != nil {
		return p, err
	}
	for _, more := range []string{index, archive} {
		if more == "" || p.covers(since) {
			continue
		}
		if _, err := p.read(ctx, client, more, 0); err != nil {
			return p, err
		}
	}
	p.order(since)
	if !p.covers(since) {
		return p, fmt.Errorf("%w: %s begins at %s", errTooOld, list, resourcesync.FormatDatetime(p.begin()))
	}
	return p, nil
}

// changeLists finds the Change List of the topic's set, and its archive, which
// may be empty.
func (s *Subscriber) changeLists(ctx context.Context) (list, archive string, err error) {
	if s.o.ChangeList != "" {
		return s.o.ChangeList, s.o.ChangeListArchive, nil
	}
	d, err := s.find(ctx)
	if err != nil && d.Topic == "" {
		return "", "", err
	}
	source, err := DiscoverSource(ctx, s.o.Client, orElse(d.CapabilityList, d.Topic))
	if err != nil {
		return "", "", fmt.Errorf("looking for the Change List of %s: %w", d.Topic, err)
	}
	i := slices.IndexFunc(source.Sets, func(set Set) bool { return set.Topic == d.Topic })
	if i < 0 && len(source.Sets) == 1 {
		i = 0
	}
	if i < 0 || source.Sets[i].Documents[resourcesync.ChangeList] == "" {
		return "", "", fmt.Errorf("the Source of %s offers no Change List for it", d.Topic)
	}
	docs := source.Sets[i].Documents
	return docs[resourcesync.ChangeList], docs[resourcesync.ChangeListArchive], nil
}

func orElse(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// read adds a Change List, or all that an index or archive names, to the plan, and
// returns the index that the list is a part of.
func (p *plan) read(ctx context.Context, client Doer, address string, depth int) (index string, err error) {
	d, err := open(ctx, client, address)
	if err != nil {
		return "", err
	}
	defer d.end()
	if up, ok := d.head.Link("index"); ok {
		index, _ = resolve(d.url, up.Href)
	}
	archive := d.head.Capability == resourcesync.ChangeListArchive
	if !d.head.Index && !archive {
		p.add(changeList{d.url, d.head.From, d.head.Until})
		return index, nil
	}
	var within []string
	for e, err := range d.Entries() {
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", d.url, err)
		}
		target, err := resolve(d.url, e.Loc)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s names %q: %w", d.url, e.Loc, err)
		case len(p.lists)+len(within) >= maxLists:
			return "", fmt.Errorf("%s leads to more than %d Change Lists", d.url, maxLists)
		case d.head.Index && archive, e.From.IsZero():
			within = append(within, target) // only the list itself tells
		default:
			p.add(changeList{target, e.From, e.Until})
		}
	}
	if len(within) > 0 && depth >= maxUps {
		return "", fmt.Errorf("%s: indexes within indexes, %d deep", d.url, depth)
	}
	for _, w := range within {
		if _, err := p.read(ctx, client, w, depth+1); err != nil {
			return "", err
		}
	}
	return index, nil
}

func (p *plan) add(l changeList) {
	if !slices.ContainsFunc(p.lists, func(have changeList) bool { return have.url == l.url }) {
		p.lists = append(p.lists, l)
	}
}

// order sorts the lists by when they begin, and drops those that ended by since.
func (p *plan) order(since time.Time) {
	p.lists = slices.DeleteFunc(p.lists, func(l changeList) bool { return !l.until.IsZero() && l.until.Before(since) })
	slices.SortStableFunc(p.lists, func(a, b changeList) int {
		return cmp.Or(a.from.Compare(b.from), a.until.Compare(b.until))
	})
}

// begin is when the earliest of the lists begins.
func (p *plan) begin() time.Time {
	var first time.Time
	for _, l := range p.lists {
		if first.IsZero() || l.from.Before(first) {
			first = l.from
		}
	}
	return first
}

// covers reports whether the lists have everything after since. Of one that does
// not tell when it begins that is taken for granted, and noted.
func (p *plan) covers(since time.Time) bool {
	lists := slices.Clone(p.lists)
	slices.SortFunc(lists, func(a, b changeList) int { return a.from.Compare(b.from) })
	reached := since
	for _, l := range lists {
		if l.from.IsZero() {
			p.unproven = true
			return true
		}
		if l.from.After(reached) {
			return false
		}
		if l.until.IsZero() {
			return true
		}
		if l.until.After(reached) {
			reached = l.until
		}
	}
	return reached.After(since)
}

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
func readPart(ctx context.Context, client Doer, l changeList, from time.Time, job *repairJob) (part, error) {
	p := part{until: from}
	d, err := open(ctx, client, l.url)
	if err != nil {
		return p, err
	}
	defer d.end()
	timed, beyond, limited := false, false, false
	for e, err := range d.Entries() {
		if err != nil {
			return p, fmt.Errorf("reading %s: %w", l.url, err)
		}
		if e.Datetime.IsZero() {
			p.untimed.add(&e)
			p.changes = append(p.changes, e)
			continue
		}
		timed = true
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

// takeList hands on what a list has after the tail. It returns how many changes,
// and how far the list is complete.
func (s *Subscriber) takeList(ctx context.Context, l changeList, job *repairJob) (n int, until time.Time, err error) {
	from, err := s.until()
	if err != nil {
		return 0, until, err
	}
	p, err := readPart(ctx, s.o.Client, l, from, job)
	if err != nil {
		return 0, until, err
	}
	if p.untimed.n > 0 {
		if p.changes, err = s.unseen(l.url, p.changes); err != nil {
			return 0, until, err
		}
	}
	last := from
	for i := range p.changes {
		if d := p.changes[i].Datetime; d.After(last) {
			last = d
		}
	}
	if n, err = s.handAll(p.changes, from, last); err != nil {
		return n, until, err
	}
	if p.untimed.n > 0 {
		err = s.saw(l.url, p.untimed)
	}
	return n, p.until, err
}

// handAll hands changes on in batches, in the order of time.
func (s *Subscriber) handAll(changes []resourcesync.Entry, from, last time.Time) (n int, err error) {
	order, times := inTime(changes, from)
	for len(order) > 0 {
		size := min(batchEntries, len(order))
		for size < len(order) && times[order[size]].Equal(times[order[size-1]]) {
			size++ // a batch ends between two instants
		}
		part := make([]resourcesync.Entry, size)
		for i, k := range order[:size] {
			part[i] = changes[k]
		}
		until := times[order[size-1]]
		if size == len(order) && last.After(until) {
			until = last
		}
		if err := s.hand(part, until); err != nil {
			return n, err
		}
		n, order = n+size, order[size:]
	}
	return n, nil
}

// inTime returns the order of changes by time, where those without one stay behind
// the change before them, and the time of each.
func inTime(changes []resourcesync.Entry, from time.Time) (order []int, times []time.Time) {
	at := from
	times, order = make([]time.Time, len(changes)), make([]int, len(changes))
	for i := range changes {
		if d := changes[i].Datetime; !d.IsZero() {
			at = d
		}
		times[i], order[i] = at, i
	}
	slices.SortStableFunc(order, func(a, b int) int { return times[a].Compare(times[b]) })
	return order, times
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
	sum := sha256.Sum256([]byte(before + "\n" + e.Loc + "\n" + e.Change + "\n" + resourcesync.FormatDatetime(e.LastMod)))
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
func (s *Subscriber) unseen(url string, changes []resourcesync.Entry) ([]resourcesync.Entry, error) {
	var seen seenPrefix
	err := s.state.view(func(tx *bbolt.Tx) error {
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

func (s *Subscriber) saw(url string, p prefix) error {
	return s.update(func(tx *bbolt.Tx) error {
		return putJSON(tx.Bucket(metaBucket), untimedKey(url), seenPrefix{p.n, p.sums[p.n-1]})
	})
}
