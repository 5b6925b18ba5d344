package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/rshub/rshub/journal"
)

// errEnough ends bodies early.
var errEnough = errors.New("enough was read")

// Entries of up to pageBytes together are read at a time, with their bodies.
const (
	pageEntries = 100
	pageBytes   = 256 << 10
)

// bodies calls fn with each notification of a part, and its body. One that is damaged is
// remembered, so that the next plan has a gap there.
func (s *Service) bodies(ctx context.Context, t *turn, topic string, p *part, fn func(*journal.Entry) error) error {
	for at := p.after; at.Position < p.last.Position; {
		next, err := s.page(ctx, t, topic, at, p.last, fn)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// page reads a page after an anchor, and returns the anchor of its last entry.
func (s *Service) page(ctx context.Context, t *turn, topic string, at, last journal.Anchor, fn func(*journal.Entry) error) (journal.Anchor, error) {
	free, err := s.room(ctx, t)
	if err != nil {
		return at, err
	}
	defer free()
	entries, err := s.o.Journal.Read(ctx, topic, at, pageEntries, pageBytes)
	if err != nil || len(entries) == 0 {
		return at, s.lost(err)
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Position > last.Position:
			return last, nil
		case e.Kind != journal.KindChange || !e.Timed():
		case e.Body == nil && i > 0:
			return at, nil // the next page begins with it
		case e.Body == nil:
			free() // nothing of this page has a body
			err = s.long(ctx, t, topic, e, fn)
		default:
			err = fn(e)
		}
		if err != nil {
			return at, err
		}
		at = e.Anchor()
	}
	return at, nil
}

// long calls fn with an entry whose body does not fit into a page.
func (s *Service) long(ctx context.Context, t *turn, topic string, e *journal.Entry, fn func(*journal.Entry) error) error {
	body, free, err := s.large.get(ctx, t, e, func() ([]byte, error) { return s.o.Journal.Body(ctx, topic, *e) })
	if err != nil {
		return s.lost(err)
	}
	defer free()
	e.Body = body
	return fn(e)
}

// lost returns the error for entries that are no longer where the plan saw them.
func (s *Service) lost(err error) error {
	var damage *journal.DamagedError
	if errors.As(err, &damage) {
		s.damaged.add(damage.At)
	}
	if err == nil {
		err = errors.New("the journal lost an entry while it was read")
	}
	return fmt.Errorf("reading the journal: %w", err)
}
