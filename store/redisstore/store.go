package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// Options are the settings of a Store.
type Options struct {
	// URL says where Redis is, and what kind it is: redis://host:port/db,
	// redis+sentinel://host:port,host:port/master-name, redis+cluster://host:port,host:port,
	// and the same with rediss for TLS. User and password stand before the first host.
	URL string
	// Prefix begins the names of all keys; empty: DefaultPrefix. Hubs with the same
	// prefix share one store.
	Prefix string
	// Keys seal the secrets of subscriptions and requests; nil: secrets are stored as plain
	// text.
	Keys *seal.Keys
	// Timeout limits one command, or one pipeline of them, with all retries and
	// redirections; 0: DefaultTimeout.
	Timeout time.Duration
	// InstallID is the id that the store must have; empty: any. If it has another one, or
	// there is no store, Open returns an error that wraps ErrRefused. With AcceptEmpty it
	// makes a store with this id instead.
	InstallID   string
	AcceptEmpty bool
	// Existing makes Open return an error that wraps ErrNone if there is no store, in place of
	// making one.
	Existing bool
	// Refusing is called with why every operation that writes is refused from now on, and
	// with nil when they are accepted again. It must not wait. Nil: nothing is reported.
	Refusing func(why error)
	// Unreadable is called with each record that List and Requests leave out because they
	// cannot read it: it is damaged, or a newer version wrote it. It must not wait. Nil:
	// they fail.
	Unreadable func(id uuid.UUID, why error)
	// UnreadableTopic is called with the id of each topic that Topics, PingRecords and Changes
	// leave out for the same reasons. It must not wait. Nil: they fail.
	UnreadableTopic func(id uuid.UUID, why error)
	// Lease is how long a hub without a heartbeat still counts. Until then its shards wait. If
	// Redis may have lost something that the hub knows, publishes wait too. Zero: there are
	// no other hubs.
	Lease time.Duration
	// Reached returns how far the subscriptions of this hub to the topics of some
	// partitions got, and whether the hub has read all of them. It is called when Redis
	// may have lost its tail. Nil: there are no subscriptions.
	Reached func(partitions []int) (of []journal.Reached, ready bool)
	// Lost is called with what Redis lost. It must not wait. Nil: nothing is reported.
	Lost func(Loss)
	// Visitor says that this is not a hub, and that hubs may be at work. A visitor appends and
	// resets nothing, and does not reconcile.
	Visitor bool
	// Reads says that only methods that read are called. Then Open leaves secrets as they are stored.
	Reads bool
}

// Errors of a store as a whole.
var (
	// ErrNewer is wrapped by the error of Open if a newer version of this program wrote the
	// store.
	ErrNewer = errors.New("the store in Redis was written by a newer version")
	// ErrNone is wrapped by the error of Open with Options.Existing if there is no store.
	ErrNone = errors.New("nothing is stored")
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrAway is wrapped by the error of every method if Redis does not answer in time.
	ErrAway = errors.New("no answer from Redis")
)

// DefaultTimeout is the default of Options.Timeout. The hub has to refuse a publish that
// cannot be stored in less than two seconds.
const DefaultTimeout = 1500 * time.Millisecond

// openTimeout limits all commands of Open together, except resealing secrets.
const openTimeout = 10 * time.Second

// Store is a journal and a store of subscriptions in Redis. It may be shared
// between goroutines, and several of them, in several processes, may work on
// the same keys.
//
// It consists of parts, one for each task. Each has its own state. They share only the
// connection.
type Store struct {
	journal.Journal     // *topics
	journal.Restorer    // *restorer
	journal.Notebook    // *notes
	journal.Shelf       // *shelf
	journal.Pings       // *pings
	subscriptions.Store // *records
	// Leases are the leases of the hubs on the shards.
	Leases cluster.Store
	// Board is where the hubs show each other how they are.
	Board cluster.Board
	// Upgrader finishes an upgrade of the store's format.
	Upgrader cluster.Upgrader
	// Found is what Open found.
	Found Found

	conn       *conn
	checks     *checks
	memory     *memory
	histories  *histories
	heads      *heads
	watcher    *watcher
	reader     *reader
	appender   *appender
	records    *records
	reconciler *reconciler
	lister     *lister

	stop      context.CancelFunc // ends what runs in the background
	running   sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// topics is the store of the journals. A notification enters it by Append.
type topics struct {
	*appender
	*reader
	*watcher
	*trimmer
}

// Found is what Open found in Redis.
type Found struct {
	// ID is that of this installation, a random one that the store got when it was made.
	ID string
	// New says that Open made the store, because there was none.
	New bool
	// Location is where the store is, without a password.
	Location string
	// Warnings are sentences that an operator of this Redis should read.
	Warnings []string
	// Secrets says how secrets are stored.
	Secrets seal.Status

	format journal.Format
}

// Open connects to a store, and makes an empty one if there is none (see Options.Existing).
func Open(ctx context.Context, o Options) (*Store, error) {
	key, err := newKeys(o.Prefix)
	if err != nil {
		return nil, err
	}
	t, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(o.Timeout, DefaultTimeout)
	client, err := connect(t, timeout)
	if err != nil {
		return nil, err
	}
	c := &conn{client: client, cluster: t.cluster, key: key, location: t.location(), timeout: timeout}
	s, err := c.open(ctx, o)
	if err != nil {
		_ = client.Close() // the first error says more
		return nil, err
	}
	return s, nil
}

// open makes a store from a connection.
func (c *conn) open(ctx context.Context, o Options) (*Store, error) {
	openCtx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	found, err := c.find(openCtx, o)
	if err != nil {
		return nil, err
	}
	s := assemble(c, found, o)
	if s.Found.Secrets, err = s.records.resealAll(ctx); err != nil { // its time depends on the number of subscriptions
		return nil, fmt.Errorf("the secrets of the store in Redis: %w", err)
	}
	var background context.Context
	background, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.running.Go(func() { s.watcher.listen(background) })
	s.running.Go(func() { s.memory.watch(background) })
	s.running.Go(func() { s.checks.watch(background) })
	if !o.Visitor {
		s.reconciler.reconcile(openCtx)
		s.running.Go(func() { s.reconciler.run(background) })
	}
	return s, nil
}

// find checks whether a hub can work on this Redis, and which store is in it.
func (c *conn) find(ctx context.Context, o Options) (Found, error) {
	if err := c.client.Ping(ctx).Err(); forbidden(err) {
		return Found{}, c.lacks("PING, AUTH or SELECT", err.Error())
	} else if err != nil {
		hint := ""
		switch tls := strings.HasPrefix(c.location, "rediss"); {
		case !tls && strings.Contains(err.Error(), closedIt):
			hint = "; if it accepts only TLS, write rediss in place of redis in front of its URL"
		case tls && strings.Contains(err.Error(), "within"):
			hint = "; if it does not speak TLS, write redis in place of rediss in front of its URL"
		}
		return Found{}, fmt.Errorf("connecting to the Redis at %s: %w%s", c.location, err, hint)
	}
	warnings, err := c.inspect(ctx)
	if err != nil {
		return Found{}, err
	}
	if err := c.needs(ctx); err != nil {
		return Found{}, err
	}
	if err := c.hears(ctx); err != nil {
		warnings = append(warnings, c.deaf(err))
	}
	m, err := c.readMeta(ctx, o.InstallID, o.AcceptEmpty, o.Existing)
	if errors.Is(err, ErrNone) {
		return Found{}, err
	}
	if err != nil {
		return Found{}, fmt.Errorf("opening the store in Redis: %w", err)
	}
	if o.InstallID != "" && o.InstallID != m.id {
		warnings = append(warnings, fmt.Sprintf("the store has the id %s, and not %s, which --install-id says; it was accepted by --accept-empty-store: change --install-id", m.id, o.InstallID))
	}
	return Found{ID: m.id, New: m.isNew, Location: c.location, Warnings: warnings, format: m.format}, nil
}

// assemble puts the parts of a store together.
func assemble(c *conn, found Found, o Options) *Store {
	checks := &checks{conn: c, id: found.ID, refusing: o.Refusing}
	checks.writes.Store(int64(found.format))
	memory := &memory{conn: c}
	histories := newHistories()
	heads := newHeads(c, checks, histories)
	reader := &reader{conn: c, heads: heads, histories: histories, visitor: o.Visitor}
	lister := &lister{conn: c, unreadable: o.UnreadableTopic}
	watcher := newWatcher(c, histories, lister)
	records := &records{conn: c, checks: checks, memory: memory, sealing: o.Keys, reads: o.Reads, unreadable: o.Unreadable}
	hubs := &hubs{}
	appender := &appender{conn: c, checks: checks, memory: memory, deadlines: newDeadlines(), heads: heads, histories: histories, watcher: watcher}
	reconciler := &reconciler{
		conn: c, heads: heads, reader: reader, watcher: watcher, histories: histories, hubs: hubs,
		isNew: found.New, lease: o.Lease, reached: o.Reached, lost: o.Lost,
	}
	return &Store{
		Journal:  &topics{appender, reader, watcher, &trimmer{conn: c, checks: checks, heads: heads, reader: reader, watcher: watcher, lister: lister}},
		Restorer: &restorer{conn: c, memory: memory, heads: heads, watcher: watcher, appender: appender},
		Pings:    &pings{conn: c, checks: checks, memory: memory, lister: lister},
		Store:    records,
		Leases:   &leases{conn: c, checks: checks, hubs: hubs, reconciler: reconciler},
		Board:    &board{c},
		Upgrader: &upgrader{conn: c, checks: checks, lease: o.Lease},
		Notebook: &notes{c},
		Shelf:    &shelf{c},
		Found:    found,
		conn:     c, checks: checks, memory: memory, histories: histories, heads: heads, watcher: watcher, reader: reader,
		appender: appender, records: records, reconciler: reconciler, lister: lister,
	}
}

// ID returns the id of this installation (Found.ID).
func (s *Store) ID() string { return s.Found.ID }

// Time returns the time of day by the clock of Redis. In a Cluster it is the clock of any
// server.
func (s *Store) Time(ctx context.Context) (time.Time, error) { return s.conn.client.Time(ctx).Result() }

// Space returns the bytes of maxmemory that are free, and those under which nothing
// new is stored, as of a moment ago. False: Redis has no maxmemory.
func (s *Store) Space() (free, least int64, ok bool) { return s.memory.space() }

// Poll asks in one round trip whether many partitions and shards have changed. The maps have
// the values that Changes and Changed returned last, by partition and by shard. Poll returns
// those with a change, and those whose value is lost. It takes nine commands if Redis is one
// server. A Cluster needs one for each partition, and eight for the shards.
//
// After an error the lists are incomplete: some partitions or shards could not be checked.
func (s *Store) Poll(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, err error) {
	moved, err1 := s.watcher.pollPartitions(ctx, partitions)
	changed, err2 := s.records.pollShards(ctx, shards)
	if err = errors.Join(err1, err2); err != nil {
		err = fmt.Errorf("asking what changed: %w", err)
	}
	return moved, changed, err
}

// Close ends the store. It may be called more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.stop()
		s.closeErr = s.conn.client.Close() // this ends commands that Redis does not answer
		s.running.Wait()
	})
	return s.closeErr
}
