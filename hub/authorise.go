package hub

import (
	"context"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/validate"
)

// authorise is the fourth stage: what the topic itself says. It is not needed for a
// duplicate, which passed it the first time and is not stored again, nor for what was
// fetched from the topic.
func (h *Handler) authorise(ctx context.Context, p *publication) error {
	if p.fetched || p.decision.Result == validate.Duplicate {
		return nil
	}
	ctx = asking(ctx, egress.RequesterID(p.network), p.topic, p.head, p.publisher)
	if err := h.o.Topics.Check(ctx, p.topic); err != nil {
		return err
	}
	if !p.byContent {
		return nil
	}
	return h.o.Topics.Content(ctx, p.topic, p.location, p.body.bytes)
}
