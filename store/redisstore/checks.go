package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrRefused is wrapped by what Open returns if Redis answers, but no hub may work on it
// as it is. The message says what to change.
var ErrRefused = errors.New("refused")

// errEmptied is what every operation that writes returns once Redis no longer has the
// store that Open found.
var errEmptied = errors.New("the store that this hub opened is not in Redis any more: it was emptied, or replaced by a server without the data. Nothing is stored until the hub is restarted; if there is a backup of Redis, restore that first")

const (
	// sameEvery is how often the hub asks Redis for the id of its store, and
	// inspectEvery how often for its settings.
	sameEvery    = time.Second
	inspectEvery = time.Minute
	// clockWarn and clockRefuse are how far the clocks of the hub and of Redis may
	// be apart.
	clockWarn   = 5 * time.Second
	clockRefuse = time.Minute
)

// checks says whether anything may be written. It refuses while Redis has settings with
// which it would lose writes, and for good once Redis no longer has the store.
type checks struct {
	conn     *conn
	id       string // of the store
	refusing func(why error)

	// refused is why nothing may be written any more. Nil, or a nil error: it may.
	refused atomic.Pointer[error]
	mu      sync.Mutex
	emptied bool
}

// location is what a Redis URL says, without the secrets in it.
func (t target) location() string {
	u := url.URL{Scheme: "redis", Host: strings.Join(t.addresses, ",")}
	if t.tls {
		u.Scheme = "rediss"
	}
	switch {
	case t.cluster:
		u.Scheme += "+cluster"
	case t.master != "":
		u.Scheme += "+sentinel"
		u = *u.JoinPath(t.master)
	}
	if t.db != 0 {
		u = *u.JoinPath(strconv.Itoa(t.db))
	}
	return u.String()
}

// Ready returns nil if the store can accept a notification, else why not: Redis does not
// answer, no longer has the store, has settings with which it would lose writes, or is at
// its high water (journal.ErrFull).
func (s *Store) Ready(ctx context.Context) error {
	if err := s.checks.writable(); err != nil {
		return err
	}
	if err := s.checks.same(ctx); err != nil {
		return err
	}
	if err := s.histories.check(); err != nil {
		return err
	}
	return s.memory.full()
}

// writable returns nil, or why nothing may be written any more. Every operation
// that writes asks it first.
func (c *checks) writable() error {
	if why := c.refused.Load(); why != nil {
		return *why
	}
	return nil
}

// refuse has every operation that writes return why from now on. With nil it has them
// accepted again.
func (c *checks) refuse(why error) { c.refused.Store(&why) }

// same returns errEmptied if Redis no longer has the store that was opened. From then on
// every operation that writes returns it too.
func (c *checks) same(ctx context.Context) error {
	id, err := c.conn.client.HGet(ctx, c.conn.key.meta(nameStore), "id").Result()
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return fmt.Errorf("asking Redis for the id of the store: %w", err)
	case id == c.id:
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

// decide refuses operations that write with why, or accepts them again with nil. Once the
// store was emptied it changes nothing any more.
func (c *checks) decide(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.emptied || why == nil && c.writable() == nil {
		return
	}
	report := why == nil || c.writable() == nil || errors.Is(why, errEmptied)
	c.emptied = errors.Is(why, errEmptied)
	c.refuse(why)
	if report && c.refusing != nil {
		c.refusing(why)
	}
}

// watch looks at Redis until ctx ends.
func (c *checks) watch(ctx context.Context) {
	inspect := time.NewTicker(inspectEvery)
	defer inspect.Stop()
	same := time.NewTicker(sameEvery)
	defer same.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-same.C:
			_ = c.same(ctx) // other operations report that Redis does not answer
		case <-inspect.C:
			if _, err := c.conn.inspect(ctx); err == nil || errors.Is(err, ErrRefused) {
				c.decide(err)
			}
		}
	}
}

// inspect checks every server that the hub writes to. An error that wraps ErrRefused says
// that no hub may work on one of them.
func (c *conn) inspect(ctx context.Context) (warnings []string, err error) {
	var mu sync.Mutex
	var refused []error
	err = c.eachMaster(ctx, func(ctx context.Context, server redis.Cmdable, addr string) error {
		found, err := examine(ctx, server, addr)
		if err != nil {
			return err
		}
		warn, refuse := found.findings()
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, warn...)
		if refuse != nil {
			refused = append(refused, refuse)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking at Redis: %w", err)
	}
	slices.Sort(warnings)
	if len(refused) > 0 {
		slices.SortFunc(refused, func(a, b error) int { return slices.Compare([]byte(a.Error()), []byte(b.Error())) })
		return warnings, fmt.Errorf("%w: %w", ErrRefused, errors.Join(refused...))
	}
	return warnings, nil
}
