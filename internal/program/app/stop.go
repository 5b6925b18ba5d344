package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// untilStopped is a log that drops all lines once the hub has stopped. A part that was not
// waited for may still fail, and would log that it tries again.
type untilStopped struct {
	zapcore.Core
	stopped *atomic.Bool
}

func (u untilStopped) With(fields []zapcore.Field) zapcore.Core {
	return untilStopped{u.Core.With(fields), u.stopped}
}

func (u untilStopped) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if u.stopped.Load() {
		return to
	}
	return u.Core.Check(e, to)
}

// stopMoment is how long a part may take to end when its context has ended.
const stopMoment = 50 * time.Millisecond

// stopper stops what was started, stage by stage, the last stage first. It stops the parts
// of one stage together.
type stopper struct {
	mu     sync.Mutex
	stages []stage
}

// stage is parts that do not need each other.
type stage struct {
	// reserved is the time that remains for this stage even if the stages before it
	// need too long.
	reserved time.Duration
	parts    []stoppable
}

type stoppable struct {
	name string
	stop func(context.Context) error
}

// stage begins a stage. From now on, add and background add to it.
func (s *stopper) stage(reserved time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stages = append(s.stages, stage{reserved: reserved})
}

// add says how to stop what was just started.
func (s *stopper) add(name string, stop func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stages) == 0 {
		s.stages = make([]stage, 1)
	}
	last := &s.stages[len(s.stages)-1]
	last.parts = append(last.parts, stoppable{name, stop})
}

// stop stops every part once and joins the errors. All parts share the deadline of ctx.
// If a part has not ended when the time of its stage is over, stop logs that and goes on,
// without an error. Called again, or before anything was started, stop does nothing.
func (s *stopper) stop(ctx context.Context, log *zap.Logger) error {
	s.mu.Lock()
	stages := s.stages
	s.stages = nil
	s.mu.Unlock()
	var reserved time.Duration
	for _, st := range stages {
		reserved += st.reserved
	}
	var errs []error
	for _, st := range slices.Backward(stages) {
		reserved -= st.reserved
		errs = append(errs, st.stop(ctx, reserved, log))
	}
	return errors.Join(errs...)
}

// stop stops the parts of a stage. It leaves the last part of ctx's time, rest, to other
// stages.
func (st *stage) stop(ctx context.Context, rest time.Duration, log *zap.Logger) error {
	limit := ctx
	if end, ok := ctx.Deadline(); ok {
		var done, cancel context.CancelFunc
		ctx, done = context.WithDeadline(ctx, end.Add(-rest-stopMoment))
		defer done()
		limit, cancel = context.WithDeadline(limit, end.Add(-rest))
		defer cancel()
	}
	ended := make([]chan error, len(st.parts))
	for i, p := range slices.Backward(st.parts) {
		ended[i] = make(chan error, 1)
		go func() { ended[i] <- p.stop(ctx) }()
	}
	var errs []error
	var left []string
	for i, p := range slices.Backward(st.parts) {
		over, err := wait(limit, ended[i])
		switch {
		case !over:
			left = append(left, p.name)
		case err != nil:
			log.Warn("stopping a part failed", zap.String("event", "stop_failed"), zap.String("part", p.name), zap.Error(err))
			errs = append(errs, fmt.Errorf("stopping the %s: %w", p.name, err))
		}
	}
	if len(left) > 0 {
		log.Warn("the time to stop was over before these parts ended; the hub ends without waiting for them",
			zap.String("event", "stop_cut_short"), zap.Strings("parts", left))
	}
	return errors.Join(errs...)
}

// wait waits for the end of a part. False: it has not ended when limit does. Ended has room
// for the result.
func wait(limit context.Context, ended <-chan error) (over bool, err error) {
	if len(ended) == 0 { // else the result is there, even if the limit is reached as well
		select {
		case err = <-ended:
			return true, err
		case <-limit.Done():
			return false, nil
		}
	}
	return true, <-ended
}

// background runs a part until its stop is called, even if ctx ends before. The stop waits
// until the part has ended. If it ends by itself, failed gets an error.
func (s *stopper) background(ctx context.Context, name string, run func(context.Context) error, failed chan<- error) {
	s.gently(ctx, name, run, func(context.Context) error { return nil }, failed)
}

// gently is background for a part that needs more than the end of its context to stop in
// time: end is called then.
func (s *stopper) gently(ctx context.Context, name string, run, end func(context.Context) error, failed chan<- error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		if err = run(ctx); ctx.Err() == nil {
			select {
			case failed <- fmt.Errorf("the %s ended: %w", name, cmp.Or(err, errUnasked)):
			default: // one failure is enough to end the hub
			}
		}
	}()
	s.add(name, func(limit context.Context) error {
		cancel()
		failed := end(limit)
		<-done
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return errors.Join(failed, err)
	})
}

var errUnasked = errors.New("without being asked to")
