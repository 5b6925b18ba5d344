package transfer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// page is how many records are read from a store at once.
const page = 1000

// Source is what Export reads: a store.
type Source interface {
	ID() string
	Head(ctx context.Context, topic string) (journal.Head, error)
	Read(ctx context.Context, topic string, after journal.Anchor, max int, maxBytes int64) ([]journal.Entry, error)
	Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error)
	Intervals(ctx context.Context, topic string) ([]journal.Interval, error)
	Lists
}

// Lists are the parts of a store, partition by partition.
type Lists interface {
	Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error)
	PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error)
	List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error)
}

// ExportOptions say how secrets are written, and what the header says about the hub.
type ExportOptions struct {
	// Notifications: write the retained notifications too.
	Notifications bool
	// Keys seal the secrets, with the first key.
	Keys *seal.Keys
	// Secrets is one of the Secrets constants; empty: sealed, or ErrNoKey.
	Secrets string
	Program string // the version of the hub
	Now     time.Time
	// Unreadable returns how many topics and subscriptions the lists of the Source have left out,
	// because they cannot be read. Nil: they leave out none.
	Unreadable func() int
	// Progress, which may be nil, is called now and then, from one goroutine.
	Progress func(Counts)
}

// Exported reports what was written.
type Exported struct {
	Counts
	// Lagging counts the subscriptions in force that have not received all that their topics
	// retain. Lag counts the notifications that they have not received. An export without
	// notifications turns these into gaps.
	Lagging int
	Lag     uint64
	// Damaged counts the notifications, topics and subscriptions that were left out, because they
	// are damaged or cannot be read.
	Damaged int
	Secrets string // one of the Secrets constants
}

// Export writes what a store holds. Hubs may work meanwhile. The file then does not show a single
// moment, but no cursor in it is ahead of its topic.
func Export(ctx context.Context, w io.Writer, from Source, o ExportOptions) (Exported, error) {
	secrets, err := newSecrets(o.Secrets, o.Keys)
	if err != nil {
		return Exported{}, err
	}
	x := &exporter{
		from: from, bodies: o.Notifications, secrets: secrets, progress: o.Progress, out: bufio.NewWriterSize(w, 1<<16),
		last: map[string]journal.Anchor{}, trimmed: map[string]journal.Anchor{}, behind: map[string]bool{},
	}
	x.done.Secrets = secrets.how
	x.encode = json.NewEncoder(x.out)
	x.encode.SetEscapeHTML(false)
	if err := x.run(ctx, o); err != nil {
		return x.done, fmt.Errorf("exporting: %w", err)
	}
	return x.done, nil
}

type exporter struct {
	from     Source
	bodies   bool
	secrets  *secrets
	progress func(Counts)
	out      *bufio.Writer
	encode   *json.Encoder
	done     Exported

	last    map[string]journal.Anchor // of each topic as it was written
	trimmed map[string]journal.Anchor // of each topic that was trimmed meanwhile
	behind  map[string]bool           // topics that a cursor is ahead of
}

func (x *exporter) run(ctx context.Context, o ExportOptions) error {
	first := header{
		Type: typeHeader, Format: Format, Program: o.Program, Store: x.from.ID(), WrittenAt: utc(o.Now),
		Secrets: x.secrets.how, SealKey: x.secrets.sealKey(),
	}
	if err := x.encode.Encode(first); err != nil {
		return err
	}
	for _, part := range []func(context.Context, int) error{x.topics, x.pings, x.subscriptions} {
		for n := range journal.Partitions {
			if err := part(ctx, n); err != nil {
				return err
			}
		}
	}
	for topic := range x.behind {
		head, err := x.from.Head(ctx, topic)
		if err != nil {
			return err
		}
		if err := x.topic(ctx, head); err != nil {
			return err
		}
	}
	if o.Unreadable != nil {
		x.done.Damaged += o.Unreadable()
	}
	if err := x.encode.Encode(endLine{typeEnd, x.done.Counts, x.done.Damaged}); err != nil {
		return err
	}
	return x.out.Flush()
}

// each reads the pages of a list one after the other. It calls do with each item; do
// returns the ID of the item.
func each[T any](ctx context.Context, partition int, list func(context.Context, int, uuid.UUID, int) ([]T, error), do func(T) (uuid.UUID, error)) error {
	for after := uuid.Nil; ; {
		items, err := list(ctx, partition, after, page)
		if err != nil {
			return err
		}
		for _, item := range items {
			if after, err = do(item); err != nil {
				return err
			}
		}
		if len(items) < page {
			return nil
		}
	}
}

func (x *exporter) topics(ctx context.Context, partition int) error {
	return each(ctx, partition, x.from.Topics, func(h journal.Head) (uuid.UUID, error) { return journal.TopicID(h.Topic), x.topic(ctx, h) })
}

func (x *exporter) topic(ctx context.Context, h journal.Head) error {
	remembered, err := x.from.Intervals(ctx, h.Topic)
	if err != nil {
		return err
	}
	x.last[h.Topic] = h.Last
	if h.Trimmed.Seq > 0 {
		x.trimmed[h.Topic] = h.Trimmed
	}
	l := ofTopic(h, remembered)
	if x.bodies {
		if l.Retained, err = x.notifications(ctx, h); err != nil {
			return err
		}
	}
	return x.write(l)
}

const (
	readAtOnce = 256     // entries
	readBytes  = 4 << 20 // of their bodies
)

// notifications writes the notifications of a topic up to its head h, oldest first. It returns
// which ones they are; nil: there are none. Notifications that are trimmed meanwhile or are
// damaged are not in the file, so a store that imports the file does not have them.
func (x *exporter) notifications(ctx context.Context, h journal.Head) (*retainedLine, error) {
	kept := &retainedLine{}
	trimmedTo := func(a journal.Anchor) { kept = &retainedLine{Trimmed: ofAnchor(a)} }
	trimmedTo(h.Trimmed)
	for after := h.Trimmed; after.Position < h.Last.Position; { // the seq of a damaged one may be unknown
		entries, err := x.from.Read(ctx, h.Topic, after, readAtOnce, readBytes)
		trimmed, isTrimmed := errors.AsType[*journal.TrimmedError](err)
		damaged, isDamaged := errors.AsType[*journal.DamagedError](err)
		switch {
		case isTrimmed:
			after = trimmed.To
			trimmedTo(after)
			continue
		case isDamaged:
			after = damaged.At
			x.done.Damaged++
			continue
		case err != nil:
			return nil, err
		case len(entries) == 0:
			return nil, fmt.Errorf("the newest notifications of %s disappeared meanwhile; try again", h.Topic)
		}
		for _, e := range entries {
			if after = e.Anchor(); e.Position > h.Last.Position {
				break
			}
			var err error
			if e.Body == nil && e.Size > 0 {
				e.Body, err = x.from.Body(ctx, h.Topic, e)
			}
			switch {
			case errors.Is(err, journal.ErrNotFound):
				trimmedTo(after)
				continue
			case errors.Is(err, journal.ErrDamaged):
				x.done.Damaged++
				continue
			case err != nil:
				return nil, err
			}
			if err := x.write(ofEntry(h.Topic, e)); err != nil {
				return nil, err
			}
			kept.Bytes += e.Size
		}
	}
	if kept.Trimmed.Position >= uint64(h.Last.Position) {
		return nil, nil
	}
	return kept, nil
}

func (x *exporter) pings(ctx context.Context, partition int) error {
	return each(ctx, partition, x.from.PingRecords, func(m journal.PingRecord) (id uuid.UUID, err error) {
		if m.Waiting() {
			err = x.write(&pingLine{typePing, m.Topic, utc(m.PingedAt)})
		}
		return journal.TopicID(m.Topic), err
	})
}

func (x *exporter) subscriptions(ctx context.Context, shard int) error {
	return each(ctx, shard, x.from.List, func(rec subscriptions.Record) (uuid.UUID, error) {
		if x.bodies {
			rec = x.within(rec)
		}
		x.look(rec)
		return subscriptions.ID(rec.Pair()), x.write(ofRecord(rec, x.secrets))
	})
}

// within moves the anchors of a record back that are ahead of its topic as it was written,
// because later notifications are not in the file.
func (x *exporter) within(rec subscriptions.Record) subscriptions.Record {
	back := func(topic string, a *journal.Anchor) bool {
		last := x.last[topic]
		ahead := a.Position > last.Position
		if ahead {
			*a = last
		}
		return ahead
	}
	if rec.Subscription != nil {
		s := *rec.Subscription
		back(s.Topic, &s.Start)
		if c := s.Cursor; back(s.Topic, &c.Anchor) {
			s.Cursor = journal.Cursor{Generation: c.Generation, Anchor: c.Anchor, Nudge: c.Nudge}
		}
		rec.Subscription = &s
	}
	if rec.Request != nil {
		r := *rec.Request
		back(r.Topic, &r.Start)
		rec.Request = &r
	}
	return rec
}

// look records how far a subscription is behind its topic, or ahead of what was written of the
// topic.
func (x *exporter) look(rec subscriptions.Record) {
	ahead := func(topic string, a journal.Anchor) {
		if a.Position > x.last[topic].Position {
			x.behind[topic] = true
		}
	}
	if s := rec.Subscription; s != nil {
		ahead(s.Topic, s.Cursor.Anchor)
		lag := subscriptions.LagOf(x.last[s.Topic], x.trimmed[s.Topic], s.Cursor, time.Time{}).Notifications
		if s.EndedAt.IsZero() && lag > 0 {
			x.done.Lagging++
			x.done.Lag += lag
		}
	}
	if r := rec.Request; r != nil {
		ahead(r.Topic, r.Start)
	}
}

func (x *exporter) write(l line) error {
	*l.counter(&x.done.Counts)++
	if n := x.done.Total(); x.progress != nil && n%page == 0 {
		x.progress(x.done.Counts)
	}
	return x.encode.Encode(l)
}
