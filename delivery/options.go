package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// Journal is where delivery reads notifications, and where it records what the store lost.
type Journal interface {
	journal.Reader
	journal.Watcher
	journal.Recorder
}

// Subscriptions is where delivery reads its subscriptions, and where it stores how far it got.
type Subscriptions interface {
	subscriptions.Registry
	subscriptions.Committer
}

// Doer sends one HTTP request: in the hub the guarded client of
// internal/base/egress. It follows no redirects, and an *http.Client follows none here. It
// may be shared between goroutines.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// poster makes POSTs. A Doer that is one as well, such as the client of internal/base/egress,
// makes its deliveries so, which is much cheaper.
type poster interface {
	Post(context.Context, *post.Request) (post.Answer, error)
}

func posterOf(d Doer) poster {
	if p, ok := d.(poster); ok {
		return p
	}
	return post.HTTP{Doer: web.WithoutRedirects(d)}
}

// Options configure a Dispatcher. Journal, Subscriptions, Client and HubURL are required. Other
// fields have a default, which their comments name.
type Options struct {
	Journal       Journal
	Subscriptions Subscriptions
	Client        Doer

	// HubURL is the hub's URI, as it stands in Link.
	HubURL string
	// UserAgent is the User-Agent of deliveries. Empty: "rshub".
	UserAgent string
	// Signature signs the deliveries of subscriptions with a secret. SHA256.
	Signature websub.SignatureMethod
	// Policy says when to try again.
	Policy Policy

	// Timeout is how long an exchange may go without progress. The whole exchange may last
	// Timeout and the time that the body needs at 128 KiB/s. 15 s.
	Timeout time.Duration
	// MaxInflight is how many deliveries go on at once. 512.
	MaxInflight int
	// MaxInflightBytes bounds the distinct bodies in memory; a single one over
	// it is delivered alone. 256 MiB.
	MaxInflightBytes int64
	// Schedulers is how many schedulers the callback hosts are divided among (docs/scale.md). One for
	// every two processors.
	Schedulers int
	// PerHost is how many deliveries go on at once to one host:port. 8.
	PerHost int
	// CommitWindow and CommitEvery say when a group of cursors is written: so
	// long after its first, or with so many results. 100 ms and 1,024.
	CommitWindow time.Duration
	CommitEvery  int
	// Drain is how long deliveries in flight may go on after Run's context
	// ended. Zero cuts them off at once.
	Drain time.Duration
	// Sweep is how often the store is asked what changed, in case a hint was
	// lost. 5 s.
	Sweep time.Duration
	// Poll, where a store far away offers it, is asked first in each sweep: about all
	// partitions and shards that matter, by the values with which Changes and Changed
	// were asked last. It returns those about which these would return something new, or
	// that the value is lost. An error says that some could not be asked. Nil: each is
	// asked by itself.
	Poll func(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, err error)

	// Owns reports whether this hub still owns a shard that was started. It is asked right
	// before each exchange, as Abort may come late where the hub was frozen, and must
	// be cheap. Nil: it does until Abort or Finish.
	Owns func(shard int) bool

	// Event is called with each attempt, and Gap with each gap that is recorded, to count
	// and trace them. They must not wait, and are called from many goroutines.
	// Nil: they are not called.
	Event func(Event)
	Gap   func(journal.Gap)
	// Damaged is called once for each damaged notification that delivery finds, by the same
	// rules.
	Damaged func()
	// Found is called with each record of a started shard that has a pending
	// request: at the Start, and when a sweep finds that it changed, maybe through
	// another hub. The same rules apply.
	Found func(subscriptions.Record)
	// Log gets a line for each attempt and each gap. Nil: none.
	Log *zap.Logger
	// Clock has the time of day. Nil: the machine's, with clock.New.
	Clock journal.Clock
	// Rand returns numbers in [0, 1) for jitter. Nil: math/rand/v2. It may be
	// called from several goroutines.
	Rand func() float64
}

// Limits that are no flags.
const (
	readLimit    = 4 << 10                // bytes of an answer that are read (HUB-46)
	readFor      = time.Second            // and for how long
	byteRate     = 128 << 10              // bytes a second that a callback has to accept
	flushTimeout = 400 * time.Millisecond // after Drain, for the last cursors at the end
	storeBackoff = time.Second            // after a store could not be read; it grows
	suspectAfter = 3                      // timeouts or connect errors in a row
	probeStep    = 1                      // of the ladder: the longest wait for a probe if a lane waits whose last attempt was answered
	followers    = 4                      // topics whose heads are read at once
	chunk        = 256                    // lanes touched in one critical section
	firstLanes   = 16                     // of a topic, touched where its new head is heard of
	walkEvery    = time.Minute            // between walks over all lanes
	reviveEvery  = 20 * time.Millisecond  // between lanes of a host that is back
	cachedBodies = 4096                   // bodies kept that no delivery uses
	offerStands  = time.Second            // for how long lanes get an entry from memory that was not read
	smallBody    = 64 << 10               // bytes; a body is small up to this size, and else large
	grace        = time.Second            // for which a large body is kept for those that waited
)

func (o *Options) setDefaults() error {
	if o.Journal == nil || o.Subscriptions == nil || o.Client == nil {
		return errors.New("delivery: Options needs a Journal, Subscriptions and a Client")
	}
	if err := websub.CheckURL("HubURL", o.HubURL); err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	o.Signature = cmp.Or(o.Signature, websub.SHA256)
	if _, err := websub.ParseSignatureMethod(string(o.Signature)); err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	if min(o.MaxInflight, o.Schedulers, o.PerHost, o.CommitEvery) < 0 || o.MaxInflightBytes < 0 ||
		min(o.Policy.First, o.Policy.Max, o.Policy.GiveUp, o.Timeout, o.CommitWindow, o.Drain, o.Sweep) < 0 {
		return errors.New("delivery: a number or a time in Options is negative; zero is the default")
	}
	o.Policy = o.Policy.withDefaults()
	o.UserAgent = cmp.Or(o.UserAgent, "rshub")
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	o.MaxInflight = cmp.Or(o.MaxInflight, 512)
	o.MaxInflightBytes = cmp.Or(o.MaxInflightBytes, 256<<20)
	o.Schedulers = cmp.Or(o.Schedulers, (runtime.GOMAXPROCS(0)+coresOfScheduler-1)/coresOfScheduler)
	o.PerHost = cmp.Or(o.PerHost, 8)
	o.CommitWindow = cmp.Or(o.CommitWindow, 100*time.Millisecond)
	o.CommitEvery = cmp.Or(o.CommitEvery, 1024)
	o.Sweep = cmp.Or(o.Sweep, 5*time.Second)
	o.Clock = cmp.Or[journal.Clock](o.Clock, clock.New(nil))
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Owns == nil {
		o.Owns = func(int) bool { return true }
	}
	if o.Damaged == nil {
		o.Damaged = func() {}
	}
	o.Event, o.Gap, o.Found = orNothing(o.Event), orNothing(o.Gap), orNothing(o.Found)
	o.Log = cmp.Or(o.Log, zap.NewNop()).Named("delivery")
	return nil
}

// orNothing returns f, or a function that does nothing.
func orNothing[T any](f func(T)) func(T) {
	if f != nil {
		return f
	}
	return func(T) {}
}

// Stats is a snapshot of a Dispatcher.
type Stats struct {
	// Lanes are the subscriptions that have not ended, Topics and Hosts theirs.
	Topics, Hosts, Lanes int

	Ready    int // lanes with something to deliver now, delayed by a limit or about to start
	Waiting  int // lanes that wait for a time
	InFlight int // lanes with an exchange going on

	// Topics some of whose lanes wait: for a store that does not answer, or else for a
	// damaged notification.
	Away, Damaged int

	Suspects      int   // hosts that time out or cannot be connected to
	BytesInFlight int64 // of bodies in memory that a delivery uses
	BytesCached   int64 // of all bodies in memory
	Uncommitted   int   // results that the store has not acknowledged yet

	// Since the start: attempts by outcome, notifications passed over,
	// subscriptions ended by a 410.
	Delivered, Failed, PassedOver, Gone uint64
	// Reads of entries from the journal.
	Reads uint64
}
