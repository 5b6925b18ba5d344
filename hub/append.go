package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

// maxAppends is how often the head of a topic may move before a publish is refused as busy.
const maxAppends = 16

func busyTopic() error {
	return refuse(busy, "Too many notifications for this topic arrive at once. Try again in a second.").retryAfter(time.Second)
}

// append is the last stage. It stores the entry if the head has not moved since the
// decision, and decides again if it has (invariant 2).
func (h *Handler) append(ctx context.Context, p *publication) error {
	for range maxAppends {
		if p.decision.Result == validate.Duplicate {
			p.accept(p.decision.ID, p.decision.Position, true)
			return nil
		}
		now := h.o.Clock.Latest() // retention counts from here
		e := p.entry
		if missing := p.decision.Gap; missing != nil {
			recorded := *missing
			recorded.At, recorded.Position, recorded.Seq = now, p.head.Last.Position, p.head.Last.Seq
			e.Gap = &recorded
		}
		start := time.Now()
		// In a hub that is (*topics).Append in store/embedstore/append.go, or (*appender).Append in
		// store/redisstore/append.go, with a timer around it (internal/engine/telemetry).
		stored, err := h.o.Journal.Append(ctx, now, p.topic, e, p.head.Version)
		p.stored = Span{Start: start, Duration: time.Since(start)}
		if err == nil {
			h.heads.stored(p.topic, p.head, stored)
			if stored.Gap != nil {
				p.gap = *stored.Gap
			}
			p.accept(stored.ID, stored.Position, false)
			return nil
		}
		if !errors.Is(err, journal.ErrHeadMoved) {
			return fmt.Errorf("appending to the journal: %w", err)
		}
		if err := h.continues(ctx, p); err != nil {
			return err
		}
	}
	return busyTopic()
}

func (p *publication) accept(id uuid.UUID, at journal.Position, duplicate bool) {
	p.id = id
	p.accepted = accepted{
		ID: id.String(), Topic: p.topic, From: instant(p.entry.From), Until: instant(p.entry.Until),
		Position: fmt.Sprintf("%016x", uint64(at)), Duplicate: duplicate,
	}
}
