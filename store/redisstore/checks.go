package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

// ErrRefused is wrapped by the error of Open if Redis answers, but no hub may work on it
// with its present settings. The message says what to change.
var ErrRefused = errors.New("refused")

// errEmptied is returned by every operation that writes once Redis no longer has the store
// that Open found.
var errEmptied = errors.New("the store that this hub opened is not in Redis any more: Redis was emptied, or replaced by a server without the data. The hub stores nothing until it is restarted. If there is a backup of Redis, restore it first")

const (
	// sameEvery is how often the hub asks Redis for the id of its store, and
	// inspectEvery is how often it asks for the settings.
	sameEvery    = time.Second
	inspectEvery = time.Minute
	// clockWarn and clockRefuse are how far apart the clocks of the hub and of Redis may
	// be.
	clockWarn   = 5 * time.Second
	clockRefuse = time.Minute
)

// checks decides whether anything may be written. It refuses as long as Redis has settings
// that lose writes, and for good once Redis no longer has the store.
type checks struct {
	conn     *conn
	id       string // of the store
	refusing func(why error)

	// refused is why nothing may be written any more. Nil, or a nil error: writing is allowed.
	refused atomic.Pointer[error]
	mu      sync.Mutex // of decide

	// writes is the journal.Format that hubs write.
	writes atomic.Int64
}

// format returns the format in which to pack values. It may be that of a second ago, which
// every hub reads.
func (c *checks) format() journal.Format { return journal.Format(c.writes.Load()) }

// Ready returns nil if the store can accept a notification. Else it returns why not: Redis
// does not answer, accepts no writes, no longer has the store, has settings that lose writes, or is at its high
// water (journal.ErrFull).
func (s *Store) Ready(ctx context.Context) error {
	return cmp.Or(s.checks.writable(), s.checks.same(ctx), s.histories.check(), s.memory.full())
}

// writable returns nil, or why nothing may be written any more. Every operation that
// writes calls it first.
func (c *checks) writable() error {
	if why := c.refused.Load(); why != nil {
		return *why
	}
	return nil
}

// sameScript returns the id and the format of the store. It writes nothing, but has no flag that says so: Redis refuses it
// as it refuses everything that writes, as on a replica.
//
//	KEYS    1 the record of the store
//	returns {id, format}
var sameScript = newScript(bounded, `return redis.call('HMGET', KEYS[1], 'id', 'writes')`)

// same returns errEmptied if Redis no longer has the store that was opened. From then on
// every operation that writes returns it too. It also learns the format of the store.
func (c *checks) same(ctx context.Context) error {
	v, err := c.conn.run(ctx, sameScript, []string{c.conn.key.meta(nameStore)}).Slice()
	switch {
	case err != nil:
		return fmt.Errorf("asking the Redis at %s for the id of the store: %w", c.conn.location, err)
	case textOf(v[0]) == c.id:
		c.writes.Store(int64(formatOf(v[1])))
		return nil
	}
	c.decide(errEmptied)
	return errEmptied
}

// gone returns errEmptied once the store was emptied.
func (c *checks) gone() error {
	if err := c.writable(); errors.Is(err, errEmptied) {
		return err
	}
	return nil
}

// decide makes every operation that writes return why from now on, or accepts them again if
// why is nil. After errEmptied it changes nothing any more.
func (c *checks) decide(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.writable()
	if errors.Is(was, errEmptied) || why == nil && was == nil {
		return
	}
	c.refused.Store(&why)
	if c.refusing != nil && (why == nil || was == nil || errors.Is(why, errEmptied)) {
		c.refusing(why)
	}
}

// watch checks Redis until ctx ends.
func (c *checks) watch(ctx context.Context) {
	for inspected := time.Now(); clock.Sleep(ctx, sameEvery); {
		_ = c.same(ctx) // other operations report that Redis does not answer
		if time.Since(inspected) >= inspectEvery {
			inspected = time.Now()
			if _, err := c.conn.inspect(ctx); err == nil || errors.Is(err, ErrRefused) {
				c.decide(err)
			}
		}
	}
}

// inspect checks every server that the hub writes to. An error that wraps ErrRefused says
// that no hub may work on one of them.
func (c *conn) inspect(ctx context.Context) (warnings []string, err error) {
	servers, err := askMasters(ctx, c, examine)
	if err != nil {
		return nil, fmt.Errorf("asking Redis for its settings: %w", err)
	}
	var refused []error
	slices.SortFunc(servers, func(a, b server) int { return strings.Compare(a.addr, b.addr) })
	for _, s := range servers {
		s.cluster = c.cluster
		warn, refuse := s.findings()
		warnings, refused = append(warnings, warn...), append(refused, refuse)
	}
	if err := errors.Join(refused...); err != nil {
		return warnings, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return warnings, nil
}
