package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
)

// Options are the settings of a Store.
type Options struct {
	// URL says where Redis is, and of which kind: redis://host:port/db,
	// redis+sentinel://host:port,host:port/master-name, redis+cluster://host:port,host:port,
	// and the same with rediss for TLS. User and password stand before the first host.
	URL string
	// Prefix begins the names of all keys; empty: DefaultPrefix. All hubs that
	// have it in common are one.
	Prefix string
	// Keys seal the secrets of subscriptions and requests; nil: they are stored
	// as they are.
	Keys *seal.Keys
	// Timeout is for one command, or one pipeline of them, with all its retries
	// and redirections; 0: DefaultTimeout.
	Timeout time.Duration
	// InstallID, where not empty, is the id that the store has to have: Open
	// returns an error that wraps ErrRefused where it has another one, or where
	// there is no store, unless AcceptEmpty is set. A new one then gets this id.
	InstallID   string
	AcceptEmpty bool
	// Refusing is told why every operation that writes is refused from now on;
	// nil: they are taken again. It must not wait. Nil: nobody is told.
	Refusing func(why error)
	// Unreadable is told what List and Requests leave out as it cannot be read: it
	// is damaged, or a newer version wrote it. It must not wait. Nil: they fail.
	Unreadable func(id uuid.UUID, why error)
	// UnreadableTopic is told of the topics that Topics and Marks leave out, by
	// their ids, for the same reasons. It must not wait. Nil: they fail.
	UnreadableTopic func(id uuid.UUID, why error)
	// Lease is how long a hub counts that says nothing: its share waits so long, and
	// so do publishes where Redis may have lost something that it knows of. Zero:
	// there are no other hubs.
	Lease time.Duration
	// Reached tells how far the subscriptions that this hub has got, of the topics of
	// some partitions, and whether it has all that it should; nil: it has none. It is
	// asked when Redis may have lost its tail.
	Reached func(partitions []int) (of []journal.Reached, ready bool)
	// Lost is told what Redis lost. It must not wait. Nil: nobody is told.
	Lost func(Loss)
	// Visitor says that this is no hub, while hubs may be at work: it appends and
	// resets nothing, and leaves it to them to find out what Redis lost.
	Visitor bool
}

// Errors of a store as such.
var (
	// ErrNewer is wrapped by what Open returns where a newer version of this
	// program wrote the store.
	ErrNewer = errors.New("the store in Redis was written by a newer version")
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrAway is wrapped by what every method returns where Redis gives no
	// answer in time.
	ErrAway = errors.New("no answer from Redis")
)

// DefaultTimeout is Options.Timeout where it is not set: a publish that cannot be
// stored has to be refused in less than two seconds.
const DefaultTimeout = 1500 * time.Millisecond

const (
	// openTimeout is for all of Open's own commands.
	openTimeout = 10 * time.Second
)

const (
	maxRetries   = 3
	maxRedirects = 8
	poolSize     = 64 // connections to each server
	headsKept    = 1024
)

// Store is a journal and a store of subscriptions in Redis. It may be shared
// between goroutines, and several of them, in several processes, may work on
// the same keys.
type Store struct {
	client  redis.UniversalClient
	cluster bool
	key     keys
	sealing *seal.Keys
	meta    meta
	secrets Secrets

	// heads are the raw head records that were read or stored last, by topic id.
	heads *lru.Cache[uuid.UUID, string]
	// highest are the highest positions that were seen in each partition.
	highest [journal.Partitions]atomic.Uint64
	hints   *hints
	memory  memory
	// unreadable and unreadableTopic are those of Options.
	unreadable, unreadableTopic func(id uuid.UUID, why error)
	// sights, histories and hubs are for telling what Redis lost; with reached and
	// lost of the Options.
	sights     sights
	histories  *histories
	hubs       hubs
	ownerLease time.Duration
	reached    func(partitions []int) (of []journal.Reached, ready bool)
	lost       func(Loss)

	location string // for people, without a password
	checks   checks
	// refused is why nothing may be written any more; nil: it may.
	refused atomic.Pointer[error]

	stop      context.CancelFunc // ends what runs beside the calls
	running   sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

var (
	_ journal.Journal = (*Store)(nil)
	_ journal.Marks   = (*Store)(nil)
)

// Open connects to a store, and makes an empty one where there is none.
func Open(ctx context.Context, o Options) (*Store, error) {
	key, err := newKeys(o.Prefix)
	if err != nil {
		return nil, err
	}
	t, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	client, err := connect(t, cmp.Or(o.Timeout, DefaultTimeout))
	if err != nil {
		return nil, err
	}
	heads, err := lru.New[uuid.UUID, string](headsKept)
	if err != nil {
		panic(err) // its size is right
	}
	s := &Store{
		client: client, cluster: t.cluster, key: key, sealing: o.Keys, heads: heads, hints: newHints(), location: t.location(),
		unreadable: o.Unreadable, unreadableTopic: o.UnreadableTopic,
		histories: newHistories(), ownerLease: o.Lease, reached: o.Reached, lost: o.Lost,
	}
	s.checks.told = o.Refusing
	openCtx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := s.start(openCtx, o); err != nil {
		_ = client.Close() // the first error says more
		return nil, err
	}
	if err := s.settleSecrets(ctx); err != nil { // takes as long as there are subscriptions
		_ = client.Close()
		return nil, fmt.Errorf("the secrets of the store in Redis: %w", err)
	}
	var background context.Context
	background, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.work(background)
	if !o.Visitor {
		s.settleAll(openCtx)
		s.running.Go(func() { s.settle(background) })
	}
	return s, nil
}

// connect makes the client, whose commands take no longer than timeout. It dials
// nothing yet.
func connect(t target, timeout time.Duration) (redis.UniversalClient, error) {
	o, err := t.options()
	if err != nil {
		return nil, err
	}
	// All that the client has to say it says in errors as well.
	logging.Disable()
	o.MaxRetries, o.MaxRedirects = maxRetries, maxRedirects
	o.MinRetryBackoff, o.MaxRetryBackoff = 20*time.Millisecond, 200*time.Millisecond
	o.DialTimeout, o.DialerRetries = timeout/3, 1 // so that another try is left
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout
	o.ContextTimeoutEnabled = true
	o.PoolSize = poolSize
	// An ACL user need not be allowed what nothing depends on.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// Reads go to masters alone: ReadOnly and the Route options stay as they are.
	client := redis.NewUniversalClient(o)
	client.AddHook(limits{timeout: timeout})
	return client, nil
}

// start makes a store of the connection.
func (s *Store) start(ctx context.Context, o Options) error {
	if err := s.client.Ping(ctx).Err(); forbidden(err) {
		return lacks("PING", err.Error())
	} else if err != nil {
		return fmt.Errorf("connecting to Redis: %w", err)
	}
	var err error
	if s.checks.warnings, err = s.inspect(ctx); err != nil {
		return err
	}
	if err := s.needs(ctx); err != nil {
		return err
	}
	if s.meta, err = s.readMeta(ctx, o.InstallID, o.AcceptEmpty); err != nil {
		return fmt.Errorf("opening the store in Redis: %w", err)
	}
	s.pinned(o.InstallID)
	return nil
}

// work begins what runs beside the calls, until ctx ends.
func (s *Store) work(ctx context.Context) {
	s.running.Go(func() { s.listen(ctx) })
	s.running.Go(func() { s.watchMemory(ctx) })
	s.running.Go(func() { s.watchStore(ctx) })
}

// ID is the id of this installation, drawn at random when the store was made.
func (s *Store) ID() string { return s.meta.id }

// Time is the time of day by the clock of Redis; of a Cluster, by that of some server.
func (s *Store) Time(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() }

// writable returns nil, or why nothing may be written any more. Every operation
// that writes asks it first.
func (s *Store) writable() error {
	if why := s.refused.Load(); why != nil {
		return *why
	}
	return nil
}

// refuse has every operation that writes return why, from now on; nil: no more.
func (s *Store) refuse(why error) {
	if why == nil {
		s.refused.Store(nil)
		return
	}
	s.refused.Store(&why)
}

// Close ends the store. It may be called more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.stop()
		s.closeErr = s.client.Close() // it breaks off what Redis does not answer
		s.running.Wait()
	})
	return s.closeErr
}
