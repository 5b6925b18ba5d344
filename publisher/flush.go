package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Flush cuts what was recorded before the call without waiting for more, and returns when
// every hub has it. The error says which hubs do not have it, because ctx ended, they
// stopped or the Publisher was closed. Run has to be running.
func (p *Publisher) Flush(ctx context.Context) error {
	last := p.box.outboxState().Last
	for {
		if s := p.box.outboxState(); s.queued == 0 || s.Until.After(last) {
			break
		}
		p.cutting.Lock()
		_, err := p.cut(ctx, time.Time{})
		p.cutting.Unlock()
		if err != nil {
			return err
		}
	}
	until := p.box.outboxState().Until
	for {
		changed := p.changed.Wait()
		err, waits := p.lacking(until)
		if !waits {
			return err
		}
		if p.box.closed() {
			return errors.Join(err, ErrClosed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err, _ = p.lacking(until); err == nil {
				return nil // the last hub got it as ctx ended
			}
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// lacking returns an error for each hub that lacks what was cut up to until. Waits: one of
// them may still get it without Resume.
func (p *Publisher) lacking(until time.Time) (lacking error, waits bool) { //nolint:revive // the error is not that of the call
	for _, s := range p.senders {
		if s.has(until) {
			continue
		}
		st := s.status()
		why := cmp.Or(st.Stopped, st.LastError, "it has not answered yet")
		lacking = errors.Join(lacking, fmt.Errorf("%s lacks what was recorded: %s", s.hub.URL, why))
		waits = waits || st.Stopped == ""
	}
	return lacking, waits
}
