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
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrRefused is wrapped by what Open returns where Redis answers, but is not one
// that a hub may work on as it is. The message says what to change.
var ErrRefused = errors.New("refused")

// errEmptied is what every operation that writes returns once Redis is not the
// store any more that Open found.
var errEmptied = errors.New("the store that this hub opened is not in Redis any more: it was emptied, or replaced by a server without the data. Nothing is stored until the hub is restarted; if there is a backup of Redis, restore that first")

const (
	// sameEvery is how often Redis is asked whether it holds the same store still,
	// and inspectEvery how often for its settings.
	sameEvery    = time.Second
	inspectEvery = time.Minute
	// clockWarn and clockRefuse are how far the clocks of the hub and of Redis may
	// be apart.
	clockWarn   = 5 * time.Second
	clockRefuse = time.Minute
)

// checks is what the checks of a Store found.
type checks struct {
	warnings []string // at the start
	mu       sync.Mutex
	emptied  bool
	told     func(error)
}

// Warnings is what an operator should know about the Redis that Open found, a
// sentence each.
func (s *Store) Warnings() []string { return slices.Clone(s.checks.warnings) }

// New tells whether Open made the store, since there was none.
func (s *Store) New() bool { return s.meta.isNew }

// Location is where the store is, without a password.
func (s *Store) Location() string { return s.location }

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

// Ready returns nil when the store can take a notification, else why not: Redis
// gives no answer, does not hold the store any more or has settings with which
// it would lose it, or is at its high water (journal.ErrFull).
func (s *Store) Ready(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	if err := s.same(ctx); err != nil {
		return err
	}
	if err := s.checkSettled(); err != nil {
		return err
	}
	return s.full()
}

// same returns errEmptied, now and for ever, when Redis does not hold the store
// any more that was opened.
func (s *Store) same(ctx context.Context) error {
	id, err := s.client.HGet(ctx, s.key.meta(nameStore), "id").Result()
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return fmt.Errorf("asking Redis for the id of the store: %w", err)
	case id == s.meta.id:
		return nil
	}
	s.decide(errEmptied)
	return errEmptied
}

// gone returns errEmptied once the store was emptied.
func (s *Store) gone() error {
	if err := s.writable(); errors.Is(err, errEmptied) {
		return err
	}
	return nil
}

// decide has operations that write refused from now on with why, or, with nil, be
// taken again; but never once the store was emptied.
func (s *Store) decide(why error) {
	c := &s.checks
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.emptied || why == nil && s.writable() == nil {
		return
	}
	tell := why == nil || s.writable() == nil || errors.Is(why, errEmptied)
	c.emptied = errors.Is(why, errEmptied)
	s.refuse(why)
	if tell && c.told != nil {
		c.told(why)
	}
}

// watchStore looks at Redis until ctx ends.
func (s *Store) watchStore(ctx context.Context) {
	inspect := time.NewTicker(inspectEvery)
	defer inspect.Stop()
	same := time.NewTicker(sameEvery)
	defer same.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-same.C:
			_ = s.same(ctx) // that Redis does not answer, others find out
		case <-inspect.C:
			if _, err := s.inspect(ctx); err == nil || errors.Is(err, ErrRefused) {
				s.decide(err)
			}
		}
	}
}

// inspect looks at every server that is written to. An error that wraps
// ErrRefused says that one is not to be worked on.
func (s *Store) inspect(ctx context.Context) (warnings []string, err error) {
	var mu sync.Mutex
	var refused []error
	look := func(ctx context.Context, c redis.Cmdable, addr string) error {
		found, err := examine(ctx, c, addr)
		if err != nil {
			return err
		}
		warn, refuse := found.judge()
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, warn...)
		if refuse != nil {
			refused = append(refused, refuse)
		}
		return nil
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return look(ctx, c, c.Options().Addr) })
	} else {
		err = look(ctx, s.client, s.location)
	}
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
