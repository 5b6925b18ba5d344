package clock

import "sync"

// Signal wakes any number of waiters. The zero value is ready. It may be shared between
// goroutines.
type Signal struct {
	mu   sync.Mutex
	next chan struct{}
}

// Wait returns a channel that the next Broadcast closes. Call it before looking at what
// is waited for, so that no change is missed.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Broadcast wakes everyone who waits.
func (s *Signal) Broadcast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
