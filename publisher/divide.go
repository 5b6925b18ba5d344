package publisher

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// divide makes two intervals of about the same size from one that is too large for a hub.
// The divided interval stays as it is, since another hub may have it or may have been sent
// it. So hubs with different limits have the same changes in intervals of different
// lengths, each of them without a gap.
func (p *Publisher) divide(ctx context.Context, i interval) error {
	return p.split(ctx, i, func(entries []queued) (n int, at time.Time, err error) {
		if n = middle(entries); n == 0 {
			return 0, at, fmt.Errorf("it has %d changes", len(entries))
		}
		return n, entries[n].at, nil
	})
}

// divideAt is divide for a hub that goes on at an instant after a watermark, if an interval that it lacks
// begins before that and ends after it. The time of a change decides in which part it is.
func (p *Publisher) divideAt(ctx context.Context, after, at time.Time) error {
	var spans interval // the shortest of them
	err := p.box.db.View(func(tx *boltfile.Tx) error {
		for i := range intervalsFrom(tx, after) {
			if !i.From.Before(at) {
				break
			}
			if i.Until.After(at) && (spans.Until.IsZero() || i.Until.Sub(i.From) < spans.Until.Sub(spans.From)) {
				spans = i
			}
		}
		return nil
	})
	if err != nil || spans.Until.IsZero() {
		return err
	}
	return p.split(ctx, spans, func(entries []queued) (int, time.Time, error) {
		n := slices.IndexFunc(entries, func(q queued) bool { return !q.at.Before(at) })
		if n < 0 {
			n = len(entries)
		}
		return n, at, nil
	})
}

// split makes two intervals of one. Where says how many entries the first has, and where it ends.
func (p *Publisher) split(ctx context.Context, i interval, where func(entries []queued) (n int, at time.Time, err error)) error {
	p.cutting.Lock()
	defer p.cutting.Unlock()
	body, err := p.box.body(i)
	if err != nil {
		return err
	}
	entries, err := p.entries(body)
	if err != nil {
		return fmt.Errorf("dividing the interval from %s: %w", stamp(i.From), err)
	}
	n, at, err := where(entries)
	if err != nil {
		return fmt.Errorf("dividing the interval from %s: %w", stamp(i.From), err)
	}
	parts := []interval{
		{From: i.From, Until: at, Cut: i.Cut, Done: i.Done, Entries: n},
		{From: at, Until: i.Until, Cut: i.Cut, Done: i.Done, Entries: len(entries) - n},
	}
	var bodies [][]byte
	for k, part := range [][]queued{entries[:n], entries[n:]} {
		b, err := p.assemble(parts[k], part)
		if err != nil {
			return err
		}
		bodies = append(bodies, b)
	}
	if err := p.box.keep(context.WithoutCancel(ctx), parts, bodies, nil); err != nil {
		return err
	}
	p.o.Log.Info("an interval was divided", slog.String("event", "interval_divided"), slog.String("topic", p.o.Topic),
		slog.Time("from", i.From), slog.Time("at", at), slog.Time("until", i.Until))
	return nil
}

// entries reads the entries of a notification of our own, and leaves each as it is.
func (p *Publisher) entries(body []byte) ([]queued, error) {
	r := resourcesync.NewNotificationReader(bytes.NewReader(body), resourcesync.Limits{})
	var all []queued
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		e.Loc = cmp.Or(e.Written, e.Loc)
		q, err := composeEntry(p.o.Kind, e, e.Datetime)
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
}

// middle returns the number of the entry that follows the first half of the bytes; 0 if
// there are fewer than two entries.
func middle(entries []queued) int {
	total := 0
	for _, q := range entries {
		total += len(q.text)
	}
	sum := 0
	for n, q := range entries {
		if sum += len(q.text); 2*sum >= total {
			return min(max(n, 1), len(entries)-1)
		}
	}
	return 0
}

// assemble writes the notification of an interval.
func (p *Publisher) assemble(i interval, entries []queued) ([]byte, error) {
	var c content
	for _, q := range entries {
		c.add(q)
	}
	return p.o.notification(i.From, i.Until, c)
}

// notification puts entries into the frame of their interval.
func (o *Options) notification(from, until time.Time, c content) ([]byte, error) {
	head, foot, err := o.frame(from, until, c.above)
	return bytes.Join([][]byte{head, c.text, foot}, nil), err
}
