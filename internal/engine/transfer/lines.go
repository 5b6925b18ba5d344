package transfer

import (
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Format is the version of the lines that this package writes. It reads this
// and older ones.
const Format = 2

// The types of lines.
const (
	typeHeader       = "rshub-export"
	typeNotification = "notification"
	typeTopic        = "topic"
	typePing         = "ping"
	typeSubscription = "subscription"
	typeEnd          = "end"
)

// How a file contains the secrets of subscribers.
const (
	SecretsSealed  = "sealed"   // with the key that the header names
	SecretsPlain   = "plain"    // unencrypted
	SecretsLeftOut = "left-out" // not at all
)

// header is the first line.
type header struct {
	Type      string    `json:"type"`
	Format    int       `json:"format"`
	Program   string    `json:"program,omitempty"` // the version that wrote it
	Store     string    `json:"store"`             // the id of the installation
	WrittenAt time.Time `json:"written_at"`
	Secrets   string    `json:"secrets"`
	SealKey   string    `json:"seal_key,omitempty"` // the id of the key
}

// Positions and nonces have 64 bits. They are texts, because most JSON parsers round such
// numbers.
type anchorLine struct {
	Position uint64    `json:"position,string"`
	Nonce    uint64    `json:"nonce,string"`
	Seq      uint64    `json:"seq"`
	Until    time.Time `json:"until,omitzero"`
}

type gapLine struct {
	From     time.Time  `json:"from,omitzero"`
	Until    time.Time  `json:"until,omitzero"`
	Count    uint64     `json:"count"`
	Reason   string     `json:"reason"`
	At       time.Time  `json:"at,omitzero"`
	Position uint64     `json:"position,string,omitempty"`
	Seq      uint64     `json:"seq,omitempty"`
	After    anchorLine `json:"after,omitzero"`
}

type intervalLine struct {
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
	SHA256   hash      `json:"sha256"`
	ID       uuid.UUID `json:"id"`
	Position uint64    `json:"position,string"`
}

// notificationLine is a retained notification. The notifications of a topic come right before its
// topicLine, oldest first.
type notificationLine struct {
	Type        string         `json:"type"`
	Topic       string         `json:"topic"`
	ID          uuid.UUID      `json:"id"`
	Position    uint64         `json:"position,string"`
	Nonce       uint64         `json:"nonce,string"`
	Seq         uint64         `json:"seq"`
	ReceivedAt  time.Time      `json:"received_at"`
	From        time.Time      `json:"from,omitzero"`
	Until       time.Time      `json:"until,omitzero"`
	Kind        string         `json:"kind"`
	ContentType string         `json:"content_type"`
	Links       []string       `json:"links,omitempty"`
	SHA256      hash           `json:"sha256"`
	Counts      journal.Counts `json:"counts"`
	Gap         *gapLine       `json:"gap,omitempty"`
	Body        []byte         `json:"body"`
}

// retainedLine says which notifications of a topic are in the file: those after
// Trimmed.
type retainedLine struct {
	Trimmed anchorLine `json:"trimmed"`
	Bytes   int64      `json:"bytes"` // of their bodies
}

// topicLine is the state of a topic. If a file has two lines for one topic, the one with the
// greater position wins.
type topicLine struct {
	Type       string         `json:"type"`
	Topic      string         `json:"topic"`
	Kind       string         `json:"kind"`
	From       time.Time      `json:"from,omitzero"`
	Until      time.Time      `json:"until,omitzero"`
	Reset      bool           `json:"reset,omitempty"`
	Removed    bool           `json:"removed,omitempty"` // nothing was accepted since: only last is set
	Last       anchorLine     `json:"last"`
	ID         uuid.UUID      `json:"id"`
	SHA256     hash           `json:"sha256"`
	ReceivedAt time.Time      `json:"received_at"`
	Gaps       []gapLine      `json:"gaps,omitempty"`
	Intervals  []intervalLine `json:"intervals,omitempty"`
	Retained   *retainedLine  `json:"retained,omitempty"` // nil: no notifications

	refill refill // for merge
}

// pingLine is a topic that the hub still has to fetch.
type pingLine struct {
	Type     string    `json:"type"`
	Topic    string    `json:"topic"`
	PingedAt time.Time `json:"pinged_at"`
}

// secretLine is a secret, sealed or plain as the header says. If secrets are left out, it only
// says that there is one.
type secretLine struct {
	Value   []byte `json:"secret,omitempty"`
	LeftOut bool   `json:"secret_left_out,omitempty"`
}

type cursorLine struct {
	Generation uint64 `json:"generation"`
	anchorLine
	Nudge          uint32    `json:"nudge,omitempty"`
	Attempt        uint32    `json:"attempt,omitempty"`
	Step           uint32    `json:"step,omitempty"`
	NextAttemptAt  time.Time `json:"next_attempt_at,omitzero"`
	FirstAttemptAt time.Time `json:"first_attempt_at,omitzero"`
	LastStatus     int       `json:"last_status,omitempty"`
}

// subscriptionLine is a record: what is in force, what is requested, or both.
type subscriptionLine struct {
	Type     string       `json:"type"`
	ID       uuid.UUID    `json:"id"`
	Topic    string       `json:"topic"`
	Callback string       `json:"callback"`
	InForce  *inForceLine `json:"in_force,omitempty"`
	Request  *requestLine `json:"request,omitempty"`

	secrets *secrets             // of the file
	rec     subscriptions.Record // what the line says, after check; without secrets that were left out
}

type inForceLine struct {
	secretLine
	CreatedAt  time.Time  `json:"created_at"`
	VerifiedAt time.Time  `json:"verified_at"`
	ExpiresAt  time.Time  `json:"expires_at"`
	PausedAt   time.Time  `json:"paused_at,omitzero"`
	Start      anchorLine `json:"start"`
	Cursor     cursorLine `json:"cursor"`
	Gaps       []gapLine  `json:"gaps,omitempty"`
	EndedAt    time.Time  `json:"ended_at,omitzero"`
	EndReason  string     `json:"end_reason,omitempty"`
	Requester  uint64     `json:"requester,string,omitempty"`
}

type requestLine struct {
	ID   uuid.UUID `json:"id"`
	Mode string    `json:"mode"`
	secretLine
	LeaseSeconds int64      `json:"lease_seconds"`
	AcceptedAt   time.Time  `json:"accepted_at"`
	Start        anchorLine `json:"start"`
	Denied       string     `json:"denied,omitempty"`
	Tries        int        `json:"tries,omitempty"`
	NextAt       time.Time  `json:"next_at,omitzero"`
	Requester    uint64     `json:"requester,string,omitempty"`
}

// endLine is the last line. It counts the others, except the first.
type endLine struct {
	Type string `json:"type"`
	Counts
	Damaged int `json:"damaged,omitempty"` // that of Exported
}

// Counts are the lines of a file.
type Counts struct {
	Notifications int `json:"notifications,omitempty"`
	Topics        int `json:"topics"`
	Pings         int `json:"pings"`
	Subscriptions int `json:"subscriptions"`
}

func (*notificationLine) counter(c *Counts) *int { return &c.Notifications }
func (*topicLine) counter(c *Counts) *int        { return &c.Topics }
func (*pingLine) counter(c *Counts) *int         { return &c.Pings }
func (*subscriptionLine) counter(c *Counts) *int { return &c.Subscriptions }

// Total is the number of lines.
func (c Counts) Total() int64 { return int64(c.Notifications + c.Topics + c.Pings + c.Subscriptions) }

// String returns the counts as a person reads them.
func (c Counts) String() string {
	notifications := ""
	if c.Notifications > 0 {
		notifications = quantity.Count(c.Notifications, "notification", "notifications") + ", "
	}
	return notifications + quantity.Count(c.Topics, "topic", "topics") + ", " + quantity.Count(c.Pings, "waiting ping", "waiting pings") +
		" and " + quantity.Count(c.Subscriptions, "subscription", "subscriptions")
}
