package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// atOnce is how many lines are stored at the same time.
const atOnce = 256

// Target is what Import writes to: a store.
type Target interface {
	Head(ctx context.Context, topic string) (journal.Head, error)
	journal.Restorer
	Find(ctx context.Context, id uuid.UUID) (topic string, e journal.Entry, err error)
	Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error)
	Pings
	Records
}

// Pings are the pings of a store, as journal.Pings has them.
type Pings interface {
	PingRecord(ctx context.Context, topic string) (journal.PingRecord, error)
	Ping(ctx context.Context, now time.Time, topics []string) error
}

// Records are the subscriptions of a store, as subscriptions.Registry has them.
type Records interface {
	Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error)
	Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error)
}

// ImportOptions say how a file is read.
type ImportOptions struct {
	// Keys open the sealed secrets of a file.
	Keys *seal.Keys
	// DryRun stores nothing and reports what Import would do.
	DryRun bool
	// Progress, which may be nil, is called now and then, from one goroutine, with
	// the lines that were read.
	Progress func(Counts)
}

// Imported reports what was done, or with DryRun what would be done.
type Imported struct {
	Counts // the lines
	// Stored counts the lines that changed something, Kept those for which the store has the same
	// or newer.
	Stored, Kept int
	// Refused has an error for each of the first 20 topics that were not imported, nor were their
	// subscriptions, because the store has entries of its own that are older.
	Refused []error
	// RefusedLines counts all lines that were not imported for this reason.
	RefusedLines int
	// Secretless counts the subscriptions and requests that were not imported, because their
	// secret was left out of the file and the store does not have it.
	Secretless int
}

// Partial reports whether a part of the file is not in the store.
func (i *Imported) Partial() bool { return i.RefusedLines > 0 || i.Secretless > 0 }

// Import merges a file into a store. The file should have passed Check. Wrong lines are reported,
// and the others are imported all the same. After an error a part of the file may have been
// imported; importing it again does no harm.
func Import(ctx context.Context, r io.Reader, to Target, o ImportOptions) (Imported, error) {
	if o.DryRun {
		to = dryTarget{to}
	}
	i := &importer{to: to, refused: map[string]bool{}}
	i.begin(ctx)
	counts, err := read(ctx, r, o.Keys, handler{line: func(l line) error { return i.run(ctx, l) }, progress: o.Progress})
	if failed := i.wait(ctx); failed != nil {
		err = fmt.Errorf("importing: %w", failed)
	}
	i.done.Counts = counts
	return i.done, err
}

// dryTarget is a Target that stores nothing.
type dryTarget struct{ Target }

func (dryTarget) Restore(context.Context, journal.Head, []journal.Interval) error { return nil }
func (dryTarget) Ping(context.Context, time.Time, []string) error                 { return nil }

// Refill counts the entries that the store does not have.
func (t dryTarget) Refill(ctx context.Context, topic string, entries []journal.Entry) (added int, err error) {
	for _, e := range entries {
		of, stored, err := t.Find(ctx, e.ID)
		if err == nil {
			_, err = t.Body(ctx, topic, stored)
		}
		switch {
		case err == nil && of == topic && stored.Anchor() == e.Anchor() && stored.SHA256 == e.SHA256:
		case err == nil, errors.Is(err, journal.ErrNotFound), errors.Is(err, journal.ErrDamaged):
			added++
		default:
			return added, err
		}
	}
	return added, nil
}

func (t dryTarget) Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	stored, err := t.Get(ctx, id)
	if err != nil {
		return stored, err
	}
	return change(stored)
}

type importer struct {
	to Target

	// Lines that are stored at the same time, until the first error of them.
	group  *errgroup.Group
	within context.Context
	topics bool   // the group has topics; their subscriptions have to wait for it
	refill refill // of the topic whose line comes next

	mu      sync.Mutex
	done    Imported
	refused map[string]bool // topics
}

func (i *importer) begin(ctx context.Context) {
	i.group, i.within = errgroup.WithContext(ctx)
	i.group.SetLimit(atOnce)
}

// refill collects the notifications of a topic until the line of the topic comes.
type refill struct {
	entries []journal.Entry // not stored yet
	bytes   int64           // of their bodies
	lines   int             // of all that were read
	added   int             // stored by earlier calls of Refill
	moved   bool            // the store has a journal of its own
}

// refillBytes is how many bytes of bodies are stored at once. As many may wait for each
// topic that is stored at the same time.
const refillBytes = 1 << 20

// store stores the entries that were read so far.
func (r *refill) store(ctx context.Context, to Target, topic string) error {
	if len(r.entries) == 0 || r.moved {
		return nil
	}
	added, err := to.Refill(ctx, topic, r.entries)
	r.added += added
	r.entries, r.bytes = nil, 0
	if r.moved = errors.Is(err, journal.ErrHeadMoved); err != nil && !r.moved {
		return fmt.Errorf("the notifications of %s: %w", topic, err)
	}
	return nil
}

// run merges a line in parallel with others. The error may be that of an earlier line.
//
//nolint:contextcheck // within is made of ctx, by begin
func (i *importer) run(ctx context.Context, l line) error {
	within := i.within
	if within.Err() != nil {
		return i.wait(ctx)
	}
	switch l := l.(type) {
	case *notificationLine:
		return l.merge(ctx, i)
	case *topicLine:
		i.topics = true
		l.refill, i.refill = i.refill, refill{}
	default:
		if i.topics { // a topic has to be stored before its subscriptions
			if err := i.wait(ctx); err != nil {
				return err
			}
			within = i.within
		}
	}
	i.group.Go(func() error { return l.merge(within, i) })
	return nil
}

// wait returns when all lines that began are done, with the first error.
func (i *importer) wait(ctx context.Context) error {
	err := i.group.Wait()
	i.begin(ctx)
	i.topics = false
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// count records whether a line changed something.
func (i *importer) count(stored bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if stored {
		i.done.Stored++
	} else {
		i.done.Kept++
	}
}

// merge keeps a notification until its topic comes, or stores it if there are many.
func (l *notificationLine) merge(ctx context.Context, i *importer) error {
	r := &i.refill
	r.entries = append(r.entries, l.entry())
	r.bytes += int64(len(l.Body))
	r.lines++
	if r.bytes < refillBytes && len(r.entries) < readAtOnce {
		return nil
	}
	return r.store(ctx, i.to, l.Topic)
}

func (l *topicLine) merge(ctx context.Context, i *importer) error {
	r := &l.refill
	if err := r.store(ctx, i.to, l.Topic); err != nil {
		return err
	}
	if r.moved {
		l.Retained = nil
	}
	h, remembered := l.topic()
	stored, err := i.to.Head(ctx, h.Topic)
	if err != nil {
		return err
	}
	_, news, err := journal.Restored(stored, h)
	if err == nil && news {
		err = i.to.Restore(ctx, h, remembered)
	}
	switch {
	case errors.Is(err, journal.ErrHeadMoved) && stored.Last.Position < h.Last.Position:
		i.refuse(h.Topic, r.lines)
		return nil
	case err != nil && !errors.Is(err, journal.ErrHeadMoved):
		return fmt.Errorf("the topic %s: %w", h.Topic, err)
	}
	i.count(err == nil && news)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.done.Stored += r.added
	i.done.Kept += r.lines - r.added
	return nil
}

// refuse skips a topic with its notifications, pings and subscriptions.
func (i *importer) refuse(topic string, notifications int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refused[topic] = true
	i.done.RefusedLines += 1 + notifications
	if len(i.done.Refused) < maxProblems {
		i.done.Refused = append(i.done.Refused, fmt.Errorf("this store has notifications of %s that are older than those in the file; the topic and its subscriptions were left out", topic))
	}
}

// isRefused reports whether a topic is skipped, and then counts a line of it.
func (i *importer) isRefused(topic string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refused[topic] {
		i.done.RefusedLines++
	}
	return i.refused[topic]
}

func (l *pingLine) merge(ctx context.Context, i *importer) error {
	if i.isRefused(l.Topic) {
		return nil
	}
	stored, err := i.to.PingRecord(ctx, l.Topic)
	at := utc(l.PingedAt)
	news := stored.PingedAt.Before(at)
	if err == nil && news {
		err = i.to.Ping(ctx, at, []string{l.Topic})
	}
	if err != nil {
		return fmt.Errorf("the ping of %s: %w", l.Topic, err)
	}
	i.count(news)
	return nil
}

// errSecretless leaves a record unchanged, because its secret is not known.
var errSecretless = errors.New("its secret was left out")

func (l *subscriptionLine) merge(ctx context.Context, i *importer) error {
	if i.isRefused(l.Topic) {
		return nil
	}
	_, err := i.to.Update(ctx, l.ID, func(stored subscriptions.Record) (subscriptions.Record, error) {
		given, err := l.withSecrets(stored)
		if err != nil {
			return stored, err
		}
		return merge(stored, given)
	})
	switch {
	case errors.Is(err, errSecretless):
		i.mu.Lock()
		defer i.mu.Unlock()
		i.done.Secretless++
		return nil
	case err != nil && !errors.Is(err, errUnchanged):
		return fmt.Errorf("the subscription %s: %w", l.ID, err)
	}
	i.count(err == nil)
	return nil
}

// withSecrets returns the record of the line, with the stored secrets if the file left them
// out. A subscription without its secret cannot be delivered to, because subscribers do not
// believe an unsigned delivery. A subscription that ended needs no secret.
func (l *subscriptionLine) withSecrets(stored subscriptions.Record) (subscriptions.Record, error) {
	rec := l.rec
	if l.InForce != nil && l.InForce.LeftOut && rec.Subscription.EndedAt.IsZero() {
		// The stored secret fits only if it is of this verification or of a later one.
		if stored.Subscription == nil || stored.Subscription.VerifiedAt.Before(rec.Subscription.VerifiedAt) {
			return rec, errSecretless
		}
		s := *rec.Subscription
		s.Secret = stored.Subscription.Secret
		rec.Subscription = &s
	}
	if l.Request != nil && l.Request.LeftOut {
		if stored.Request == nil || stored.Request.ID != rec.Request.ID {
			return rec, errSecretless
		}
		rec.Request = nil // the store has it
	}
	return rec, nil
}
