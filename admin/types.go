package admin

import (
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Page is one page of a list. Next is the `?after=` of the next page; empty: this was the
// last. If a filter selects few of many, a page that is not the last may have fewer items
// than requested, or none.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// Info is what GET /api/v1/info answers.
type Info struct {
	Version   string    `json:"version"`
	Addresses Addresses `json:"addresses"`
	HubURL    string    `json:"hub_url"` // the hub URI, as in Link rel="hub"
	Store     StoreInfo `json:"store"`
	NodeID    string    `json:"node_id"`
	// Nodes are the live hubs on the store, by id. Unowned are the shards that none of them
	// owns, written as in Node.Owns: they are just moving, or their owner died. If the store
	// did not answer, NodesError says so and the other two are incomplete.
	Nodes      []Node    `json:"nodes"`
	Unowned    string    `json:"unowned,omitempty"`
	NodesError string    `json:"nodes_error,omitempty"`
	StartedAt  time.Time `json:"started_at"`
	Uptime     float64   `json:"uptime_seconds"`
}

// Addresses are the listeners' actual ones, host:port.
type Addresses struct {
	Public string `json:"public"`
	Admin  string `json:"admin"`
}

// StoreInfo says where the hub keeps its data.
type StoreInfo struct {
	Kind     string `json:"kind"`               // "embedded" or "redis"
	Location string `json:"location,omitempty"` // the folder, or the address without its password
	ID       string `json:"id,omitempty"`       // the install id
}

// Node is a hub, and which of the 256 shards it owns.
type Node struct {
	ID string `json:"id"` // `--node-id`
	// Run tells one run of a hub from all others.
	Run       string    `json:"run,omitempty"`
	Addresses Addresses `json:"addresses,omitzero"`
	Version   string    `json:"version,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"`
	// SeenAt is the time of its latest heartbeat, by the store's clock.
	SeenAt time.Time `json:"seen_at,omitzero"`
	Shards int       `json:"shards"`
	Owns   string    `json:"owns,omitempty"` // the shards as ranges: 0-84 90
}

// Topic is a topic's state.
type Topic struct {
	ID        string    `json:"id"` // UUIDv5 of URL in the URL namespace
	URL       string    `json:"url"`
	Kind      string    `json:"kind"` // "change", "framework" or "content"; empty where it was only pinged so far, or reset
	LastFrom  time.Time `json:"last_from,omitzero"`
	LastUntil time.Time `json:"last_until,omitzero"`
	// Reset: the next notification may start anywhere, and be of any kind where Kind is
	// empty.
	Reset bool `json:"reset,omitempty"`
	Head  Head `json:"head"`
	// Subscriptions is how many get the topic now, nil where that is not known.
	Subscriptions *int `json:"subscriptions,omitempty"`
	// Gaps are the topic's own, oldest first.
	Gaps     []Gap    `json:"gaps"`
	Retained Retained `json:"retained"`
	// Pauses are why subscriptions of the topic wait, or what they pass over. They cover only
	// the subscriptions that the answering hub delivers to.
	Pauses []Pause `json:"pauses,omitempty"`
	// Fetch is nil for a topic that nobody pinged.
	Fetch *Fetch `json:"fetch,omitempty"`
}

// Pause is one reason why subscriptions of a topic wait.
type Pause struct {
	// Reason is "store" if the store does not answer: all of them wait. It is "damaged" if a
	// notification is damaged: the subscriptions that get it next wait.
	Reason string    `json:"reason"`
	Error  string    `json:"error"` // what the store said last
	Since  time.Time `json:"since"`
	// NextLookAt is when the hub reads it again; zero: it no longer does.
	NextLookAt time.Time `json:"next_look_at,omitzero"`
	// The rest is about damage. NotificationID is empty if it is unknown.
	NotificationID string `json:"notification_id,omitempty"`
	Seq            uint64 `json:"seq,omitempty"`
	// PassedOverAt is when subscriptions pass it over, unless it can be read by then.
	// PassedOver: they do now.
	PassedOverAt time.Time `json:"passed_over_at,omitzero"`
	PassedOver   bool      `json:"passed_over,omitempty"`
}

// Removal is what DELETE /api/v1/topics/{id} answers. 200: the topic is removed. 202: there
// was too much to do for one call; the next call continues where this one stopped.
type Removal struct {
	ID      string `json:"id"`
	URL     string `json:"url"`
	Removed bool   `json:"removed"`
	Ended   int    `json:"ended"` // subscriptions that this call ended
}

func (r Removal) unfinished() bool { return !r.Removed }

// ReloadAnswer is what POST /api/v1/reload answers where all is well.
type ReloadAnswer struct {
	Items []Reloaded `json:"items"`
}

// Reloaded is the result of reading one thing again.
type Reloaded struct {
	What   string `json:"what"` // "publishers", "operator's token" or "certificate"
	File   string `json:"file"`
	Detail string `json:"detail,omitempty"` // what is in force now
	Error  string `json:"-"`                // why the earlier content stays in force; empty: the new one is in force
}

// Head is the newest notification of a topic; all of it is zero where there was
// none yet.
type Head struct {
	ID         string    `json:"id"`       // UUIDv7
	Seq        uint64    `json:"seq"`      // from 1, dense
	Position   string    `json:"position"` // opaque
	ReceivedAt time.Time `json:"received_at,omitzero"`
}

// Retained is what is left of a topic's notifications after retention.
type Retained struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Gap is an interval whose notifications were not or will not be delivered.
type Gap struct {
	From   time.Time `json:"from,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Count  uint64    `json:"count"` // 0: cannot be known
	Reason string    `json:"reason"`
	At     time.Time `json:"at"` // when it was recorded
}

// Subscription is a subscription's state. It never holds the secret.
type Subscription struct {
	ID       string `json:"id"` // UUIDv5 of topic + "\n" + callback in the URL namespace
	Topic    string `json:"topic"`
	Callback string `json:"callback"`
	State    string `json:"state"`  // "pending", "active", "failing", "paused" or "ended"
	Signed   bool   `json:"signed"` // there is a secret, so deliveries carry X-Hub-Signature

	CreatedAt  time.Time `json:"created_at,omitzero"`
	VerifiedAt time.Time `json:"verified_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	PausedAt   time.Time `json:"paused_at,omitzero"` // zero: it is not paused
	EndedAt    time.Time `json:"ended_at,omitzero"`
	EndReason  string    `json:"end_reason,omitempty"`

	// Cursor is the newest notification that was delivered or passed over, as
	// far as that was committed; nil before verification.
	Cursor *Cursor `json:"cursor,omitempty"`
	// Lag is nil before verification and after the end.
	Lag *Lag `json:"lag,omitempty"`
	// Attempt counts the failures of the notification after the cursor.
	Attempt        uint32    `json:"attempt"`
	FirstAttemptAt time.Time `json:"first_attempt_at,omitzero"`
	// NextAttemptAt is zero after the end and while it is paused. A new notification may bring it forward.
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	// LastStatus is the HTTP status of the last attempt. If the attempt got no
	// answer, it is 0 and LastError is "timeout", "connect", "refused" or
	// "error".
	LastStatus int    `json:"last_status,omitempty"`
	LastError  string `json:"last_error,omitempty"`
	// Gaps counts the gaps of the subscription, without those of its topic.
	Gaps int `json:"gaps"`
	// Request is the request that waits for verification, or the denial that the
	// callback has not got yet.
	Request *Request `json:"request,omitempty"`
}

// Waits reports whether an attempt to deliver or to verify is due, now or later.
func (s *Subscription) Waits() bool {
	return s.Request != nil || s.Lag != nil && s.Lag.Notifications+s.Lag.Lost > 0
}

// WhenItTakesEffect is the sentence about a change of a subscription.
const WhenItTakesEffect = "It takes effect at once, or within 5 seconds if another hub delivers to the subscription."

// Cursor is a position in a topic.
type Cursor struct {
	Position string    `json:"position"` // opaque, as in Head
	Seq      uint64    `json:"seq"`
	Until    time.Time `json:"until,omitzero"`
}

// Lag is how far a subscription is behind its topic: retained notifications that were not
// delivered yet, and the time between the `until` of the last one that was and that
// of the topic; where none ever was, the time for which the first one has failed.
type Lag struct {
	Notifications uint64  `json:"notifications"`
	Seconds       float64 `json:"seconds"`
	// Lost is how many notifications retention deleted before they were delivered. They are
	// the last gap of the subscription.
	Lost uint64 `json:"lost,omitempty"`
}

// Request is a request that is not finished.
type Request struct {
	Mode         string    `json:"mode"` // "subscribe", "unsubscribe" or "denied"
	LeaseSeconds int64     `json:"lease_seconds,omitempty"`
	AcceptedAt   time.Time `json:"accepted_at"`
	Denied       string    `json:"denied,omitempty"` // the reason that the denial gives
	Tries        int       `json:"tries"`
	NextAt       time.Time `json:"next_at,omitzero"`
	// LastError is why the last try failed, or the last check of the topic. Only the answer about
	// one subscription has it, and only as far as the hub that answers made that try.
	LastError string `json:"last_error,omitempty"`
}

// Problem is the body of every error (RFC 9457, application/problem+json).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Fetch says when a topic was pinged and what came of fetching it.
type Fetch struct {
	PingedAt time.Time `json:"pinged_at"`
	Waiting  bool      `json:"waiting"` // a fetch is still to be done
	// Tries counts the failures of the fetch that waits.
	Tries         int       `json:"tries,omitempty"`
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	// At is zero and Outcome empty before the first try.
	At             time.Time `json:"at,omitzero"`
	Outcome        string    `json:"outcome,omitempty"` // "accepted", "duplicate", or a name of docs/problems.md
	Detail         string    `json:"detail,omitempty"`
	Status         int       `json:"status,omitempty"` // HTTP, of the topic's answer
	NotificationID string    `json:"notification_id,omitempty"`
}

// Notification is one that is retained.
type Notification struct {
	ID             string    `json:"id"` // UUIDv7
	From           time.Time `json:"from,omitzero"`
	Until          time.Time `json:"until,omitzero"`
	Kind           string    `json:"kind"` // as in Topic
	MediaType      string    `json:"media_type"`
	journal.Counts           // entries of the notification, by change
	Bytes          int64     `json:"bytes"`
	SHA256         string    `json:"sha256"` // of the body, hexadecimal
	Seq            uint64    `json:"seq"`
	Position       string    `json:"position"` // opaque, as in Head
	ReceivedAt     time.Time `json:"received_at"`
}

// NotificationStatus is a notification and how far it got. The counts are of the
// subscriptions that began before it.
type NotificationStatus struct {
	Notification
	Topic     string    `json:"topic"`
	Delivered int       `json:"delivered"`
	Pending   int       `json:"pending"`        // not delivered yet
	Skipped   int       `json:"skipped"`        // passed over, or the subscription ended before its turn
	AsOf      time.Time `json:"as_of,omitzero"` // when it was counted; zero: it was not
}

// Receiver is a subscription to the topic of a notification, and what became of that.
type Receiver struct {
	Outcome string `json:"outcome"` // "delivered", "pending" or "skipped"
	Subscription
}

// Attempt is an attempt that failed, or the first successful one after that.
type Attempt struct {
	At             time.Time `json:"at"`
	NotificationID string    `json:"notification_id"`
	Attempt        uint32    `json:"attempt"`          // from 1
	Status         int       `json:"status,omitempty"` // HTTP; 0: Error says why there was none
	Error          string    `json:"error,omitempty"`
	Failure        string    `json:"failure,omitempty"` // the word for Error, as in Subscription.LastError
	Duration       float64   `json:"duration_seconds"`
	// Answer is the first 1 KiB of what the callback answered to one of the last three
	// failures, as Readable. Only operators see it, and only at the hub that made the
	// attempt, until that ends.
	Answer string `json:"answer,omitempty"`
}

// Answer is what a callback answered to an attempt that failed.
type Answer struct {
	NotificationID uuid.UUID
	Attempt        uint32
	Body           []byte
}

// Verification is what POST .../verify answers: what the callback answered to the
// verification request.
type Verification struct {
	// Confirmed: it wants the topic. It answered 2xx with the challenge.
	Confirmed bool    `json:"confirmed"`
	Status    int     `json:"status,omitempty"` // HTTP; 0: Error says why there was none
	Error     string  `json:"error,omitempty"`
	Answer    string  `json:"answer"` // the first 1 KiB of its body, as Readable
	Duration  float64 `json:"duration_seconds"`
}

// ManyRequest is the body of POST /api/v1/subscriptions. The query selects the subscriptions,
// as for the list.
type ManyRequest struct {
	Action string    `json:"action"`         // "retry", "replay", "pause", "resume" or "end"
	Since  time.Time `json:"since,omitzero"` // of a replay
}

// Many is its answer, and that of GET /api/v1/subscriptions/count. 200: all is done. 202:
// there was too much to do for one call, or the store failed after some were done; the next
// call continues with ?after= and Next.
type Many struct {
	Matched int    `json:"matched"` // subscriptions that the query selects
	Done    int    `json:"done"`
	Skipped int    `json:"skipped"` // those for which the action means nothing, or that are like that already
	Failed  int    `json:"failed,omitempty"`
	Next    string `json:"next,omitempty"`
	Error   string `json:"error,omitempty"` // why one failed, or the store
}

// ReplayRequest is the body of POST .../replay.
type ReplayRequest struct {
	Since time.Time `json:"since"`
}

// Replay is its answer.
type Replay struct {
	// Notifications is how many are delivered, again or for the first time.
	Notifications uint64       `json:"notifications"`
	Subscription  Subscription `json:"subscription"`
}
