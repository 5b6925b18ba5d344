package hub

import (
	"context"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
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

// asking returns a context for requests to a topic on behalf of a requester, or of a
// publisher with a credential; either may be empty. Requests for an established topic, or
// for a publisher with a credential, may use the reserve.
func asking(ctx context.Context, requester uint64, topic string, head journal.Head, publisher string) context.Context {
	a := egress.Asker{Requester: requester, Established: head.Established()}
	if a.Established || publisher != "" {
		a.Reserve = topic
	}
	return egress.WithAsker(ctx, a)
}
