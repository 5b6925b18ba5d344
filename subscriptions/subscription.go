package subscriptions

import (
	"crypto/subtle"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// Subscription is a callback that proved that it wants a topic.
type Subscription struct {
	ID              uuid.UUID // ID(Topic, Callback)
	Topic, Callback string
	Secret          string // empty: deliveries are not signed

	CreatedAt time.Time // when it was verified first, or anew after it had ended
	// VerifiedAt is when it was verified last. It also names the lease: a later
	// lease has a later VerifiedAt, whatever the clock does.
	VerifiedAt time.Time
	// ExpiresAt is when the lease runs out. Expiry is calculated from it. It is stored only
	// when no renewal can resume the subscription any more (invariant 10).
	ExpiresAt time.Time

	// Start is the topic's head when the subscribe request was accepted (invariant 6):
	// where the subscription began.
	Start journal.Anchor
	// Cursor is how far delivery got, as far as it was committed.
	Cursor journal.Cursor
	// Gaps are the intervals that were passed over, oldest first,
	// journal.MaxGaps at most. Those of the topic itself are with its head.
	Gaps []journal.Gap

	// Requester identifies the network of the last verified request; 0: unknown.
	Requester uint64

	// PausedAt is when the operator paused it: until it is resumed it gets nothing, and its
	// lease goes on. Zero: it is not paused.
	PausedAt time.Time

	// EndedAt and EndReason say when and why it ended, before or after its lease ran out;
	// zero and empty: it has not ended. It stays readable for EndedFor.
	EndedAt   time.Time
	EndReason string // one of the End constants
}

// Reasons of an end.
const (
	EndUnsubscribed = "unsubscribed"
	EndGone         = "gone" // the callback answered 410
	EndExpired      = "expired"
	EndRemoved      = "removed" // by the operator
)

// EndedFor is how long an ended subscription stays readable.
const EndedFor = 7 * 24 * time.Hour

// ID returns the id of the subscription of a callback to a topic: the UUIDv5 of
// topic + "\n" + callback in the URL namespace (HUB-11).
func ID(topic, callback string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic+"\n"+callback))
}

// Shard returns which of the journal.Partitions shards a subscription is in.
func Shard(id uuid.UUID) int { return journal.Partition(id) }

// Live reports whether s gets deliveries at now: it has not ended and its lease
// has not run out (HUB-29, HUB-49).
func (s *Subscription) Live(now time.Time) bool {
	return s.EndedAt.IsZero() && now.Before(s.ExpiresAt)
}

// sameSubscriber reports whether s is in force and r comes from its subscriber: from the
// network that asked for it last, or with its secret. So a renewal differs from a
// stranger's request that names the same topic and callback. A nil subscription has no
// subscriber.
func (s *Subscription) sameSubscriber(r *Request) bool {
	if s == nil || !s.EndedAt.IsZero() || r.Denied != "" {
		return false
	}
	return r.Requester != 0 && r.Requester == s.Requester ||
		r.Secret != "" && subtle.ConstantTimeCompare([]byte(r.Secret), []byte(s.Secret)) == 1
}

// State is the state of a subscription, as the operator sees it.
type State string

// The states.
const (
	StatePending State = "pending" // requested, not verified yet
	StateActive  State = "active"
	StateFailing State = "failing" // the next notification failed at least once
	StatePaused  State = "paused"  // the operator paused it
	StateEnded   State = "ended"   // ended, or expired
)

// State returns the state of s at now.
func (s *Subscription) State(now time.Time) State {
	switch {
	case !s.Live(now):
		return StateEnded
	case !s.PausedAt.IsZero():
		return StatePaused
	case s.Cursor.Attempt > 0:
		return StateFailing
	default:
		return StateActive
	}
}

// State returns the state of a record at now: that of the subscription in force. If there is
// none, it is pending if a request waits to become one, and ended if a denial waits to be
// sent. Empty: there is no subscription, at most a request to end one (HUB-18).
func (r Record) State(now time.Time) State {
	s, q := r.Subscription, r.Request
	switch {
	case q != nil && q.Mode == websub.ModeSubscribe && q.Denied == "" && (s == nil || !s.Live(now)):
		return StatePending
	case s != nil:
		return s.State(now)
	case q != nil && q.Denied != "":
		return StateEnded
	default:
		return ""
	}
}

// Request is an accepted request to subscribe or unsubscribe, or a denial that has to be
// sent, until it is finished. A subscription has at most one: a newer request replaces the
// older one.
type Request struct {
	ID              uuid.UUID // random; activation compares it (invariant 8)
	Mode            websub.Mode
	Topic, Callback string
	Secret          string
	Lease           time.Duration // as granted, whole seconds
	AcceptedAt      time.Time
	Start           journal.Anchor // the topic's head at AcceptedAt
	Requester       uint64         // as in Subscription
	// Denied is the reason for the callback (HUB-21). Once it is set, the request can no
	// longer be activated.
	Denied string
	// Tries counts the verification or denial requests that failed. NextAt is when the next
	// one may be sent; zero: at once.
	Tries  int
	NextAt time.Time
}

// SubscriptionID returns the id of the subscription that r is about.
func (r *Request) SubscriptionID() uuid.UUID { return ID(r.Topic, r.Callback) }

// Attempt is one delivery attempt worth keeping: a failure, or the first
// success after one.
type Attempt struct {
	At             time.Time
	NotificationID uuid.UUID
	Number         uint32 // from 1
	Status         int    // as journal.Cursor.LastStatus
	Error          string // what a person should know; no secret, no callback query
	Duration       time.Duration
}

// MaxAttempts is how many attempts of a subscription are kept, the latest.
const MaxAttempts = 50
