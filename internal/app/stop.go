package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"
)

// stopper stops what was started, last first.
type stopper struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	name string
	stop func(context.Context) error
}

// add says how to stop what was just started.
func (s *stopper) add(name string, stop func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step{name, stop})
}

// stop runs every step once, each as long as ctx lets it, and joins their
// errors. Called again, or while nothing was started, it does nothing.
func (s *stopper) stop(ctx context.Context, log *zap.Logger) error {
	s.mu.Lock()
	steps := s.steps
	s.steps = nil
	s.mu.Unlock()
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		if err := steps[i].stop(ctx); err != nil {
			log.Warn("stopping a part failed", zap.String("event", "stop_failed"), zap.String("part", steps[i].name), zap.Error(err))
			errs = append(errs, fmt.Errorf("stopping the %s: %w", steps[i].name, err))
		}
	}
	return errors.Join(errs...)
}

// background runs a part until its stop is called, however early ctx ends, and
// stop waits for its end. An end that nobody asked for is reported to failed.
func (s *stopper) background(ctx context.Context, name string, run func(context.Context) error, failed chan<- error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		if err = run(ctx); ctx.Err() == nil {
			select {
			case failed <- fmt.Errorf("the %s ended: %w", name, orUnexpected(err)):
			default: // one failure is enough to end the hub
			}
		}
	}()
	s.add(name, func(limit context.Context) error {
		cancel()
		select {
		case <-done:
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		case <-limit.Done():
			return fmt.Errorf("it still runs: %w", limit.Err())
		}
	})
}

func orUnexpected(err error) error {
	if err == nil {
		return errors.New("without being asked to")
	}
	return err
}
