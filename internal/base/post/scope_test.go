package post

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The end of a Scope, or of its parent, cuts off its exchanges at once and no others. Until then its connections
// are kept as others are.
func TestScope(t *testing.T) {
	serve := func(s *server, _ int) {
		for {
			body, more := s.request()
			if !more || body == "silence" {
				_, _ = io.Copy(io.Discard, s)
				return
			}
			time.Sleep(time.Second)
			s.say(ok)
		}
	}
	cause := errors.New("enough")
	for _, parent := range []bool{false, true} {
		inBubble(t, serve, func(t *testing.T, p *Pool, to *peer) {
			ctx, endParent := context.WithCancelCause(t.Context())
			defer endParent(nil)
			s, end := NewScope(ctx)
			defer end(nil)
			other, endOther := NewScope(t.Context())
			defer endOther(nil)
			for range 2 {
				if _, err := p.Post(s, request("body")); err != nil {
					t.Error(err)
				}
			}
			if n := to.dials.Load(); n != 1 || len(s.conns) > 0 {
				t.Errorf("%d connections for two exchanges, of which %d are in use", n, len(s.conns))
			}
			if parent {
				time.AfterFunc(5*time.Second, func() { endParent(cause) })
			} else {
				time.AfterFunc(5*time.Second, func() { end(cause) })
			}
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					start := time.Now()
					if _, err := p.Post(s, request("silence")); !errors.Is(err, cause) || time.Since(start) != 5*time.Second {
						t.Errorf("%v after %v, want the cause after 5 s", err, time.Since(start))
					}
				})
			}
			all.Go(func() {
				time.Sleep(4500 * time.Millisecond)
				if _, err := p.Post(other, request("body")); err != nil {
					t.Errorf("within another Scope: %v", err)
				}
			})
			all.Wait()
			if _, err := p.Post(s, request("body")); !errors.Is(err, cause) {
				t.Errorf("after that: %v", err)
			}
			synctest.Wait()
			if n := to.open.Load(); n != 1 || len(s.conns) > 0 {
				t.Errorf("%d connections are open, want that of the other Scope; %d are in use", n, len(s.conns))
			}
		})
	}
}

// An exchange that begins while its Scope ends is cut off too, and its connection is not kept.
func TestScopeEndsWhileItBegins(t *testing.T) {
	inBubble(t, func(s *server, _ int) { _, _ = io.Copy(io.Discard, s) }, func(t *testing.T, _ *Pool, to *peer) {
		s, end := NewScope(t.Context())
		end(nil)
		synctest.Wait()
		nc, _ := to.dial(t.Context(), "", "")
		c := newConn(nc, target{})
		_ = c.SetDeadline(time.Now().Add(time.Hour))
		start := time.Now()
		if _, reuse, err := c.exchange(s, request("body"), limits{start, time.Hour, time.Hour}); !errors.Is(err, context.Canceled) || reuse || time.Since(start) > 0 {
			t.Errorf("%v, %v after %v", err, reuse, time.Since(start))
		}
		if s.begin(c); s.end(c) {
			t.Error("an exchange whose Scope is over was not cut off")
		}
	})
}
