package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Flush cuts what was recorded before the call without waiting for more, and
// returns when every hub has it. An error says which hubs don't: because ctx
// ended, or because they stopped. It takes Run to be running.
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
		progress := p.onProgress()
		var errs []error
		waits := false
		for _, s := range p.senders {
			if s.has(until) {
				continue
			}
			if why, is := s.stopped(); is {
				errs = append(errs, fmt.Errorf("%s lacks what was recorded: %s", s.hub.URL, why))
			} else {
				waits = true
			}
		}
		if !waits {
			return errors.Join(errs...)
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return errors.Join(append(errs, p.behind(until), ctx.Err())...)
		}
	}
}

// behind names the hubs that lack what was cut up to until and are not stopped.
func (p *Publisher) behind(until time.Time) error {
	var errs []error
	for _, s := range p.senders {
		if _, is := s.stopped(); is || s.has(until) {
			continue
		}
		s.mu.Lock()
		why := s.last.LastError
		s.mu.Unlock()
		if why == "" {
			why = "it has not answered yet"
		}
		errs = append(errs, fmt.Errorf("%s lacks what was recorded: %s", s.hub.URL, why))
	}
	return errors.Join(errs...)
}
