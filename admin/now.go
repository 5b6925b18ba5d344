package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
)

// Now is what GET /api/v1/now answers: how all hubs on the store are, each as of its
// AsOf, a few seconds ago.
type Now struct {
	AsOf time.Time `json:"as_of"`
	// Hubs are the live hubs, by id, with the one that answers. One that does not say how
	// it is has a zero AsOf. HubsError: the store did not answer, and others may be missing.
	Hubs      []HubNow `json:"hubs"`
	HubsError string   `json:"hubs_error,omitempty"`
	// FirstLoss, Failing, Slowest and Events are those of all hubs together.
	FirstLoss *Loss     `json:"first_loss,omitempty"`
	Failing   []Laggard `json:"failing"`
	Slowest   []Laggard `json:"slowest"`
	Events    []Event   `json:"events"`
	// FailingHosts are the hosts of callbacks at which the most subscriptions fail, of all hubs together.
	FailingHosts []FailingHost `json:"failing_hosts"`
	// UpgradePending says that the hubs write the store for the version before this one,
	// too (GET /api/v1/upgrade).
	UpgradePending bool `json:"upgrade_pending,omitempty"`
}

// HubNow is how one hub is. Its counts are of the shards that it owns.
type HubNow struct {
	Node
	AsOf     time.Time `json:"as_of"`
	Draining bool      `json:"draining,omitempty"`
	// NotReady are the sentences of GET /readyz about what keeps it from accepting
	// requests. Empty: it is ready.
	NotReady []string `json:"not_ready,omitempty"`

	Active  int `json:"active"`  // subscriptions whose last delivery went well
	Failing int `json:"failing"` // those that wait for another attempt
	Paused  int `json:"paused"`  // by the operator
	Pending int `json:"pending"`
	Ended   int `json:"ended"` // ended or expired, and kept for 7 days
	Topics  int `json:"topics"`
	Streams int `json:"streams"` // that readers have open
	Hosts   int `json:"hosts"`
	Suspect int `json:"suspect_hosts"` // of these, time out or cannot be connected to

	// UnreadableSubscriptions and UnreadableTopics are those that the hub continues without: since
	// it started, it could not read their records. Its log names them.
	UnreadableSubscriptions int64 `json:"unreadable_subscriptions,omitempty"`
	UnreadableTopics        int64 `json:"unreadable_topics,omitempty"`

	// DeliveriesPerSecond and FailuresPerSecond are those of the last seconds.
	DeliveriesPerSecond float64 `json:"deliveries_per_second"`
	FailuresPerSecond   float64 `json:"failures_per_second"`
	InFlight            int     `json:"in_flight"`
	// PassedOver is how many times in the last hour a notification was passed over for a
	// subscription: it was given up on, or is damaged. Each is a gap.
	PassedOver uint64 `json:"passed_over_last_hour"`
	// LagSeconds is how far the slowest subscription is behind its topic.
	LagSeconds float64 `json:"lag_seconds"`
	// UndeliveredSeconds is about how long ago the hub accepted the oldest notification that a
	// subscription has not got, of those that are neither paused nor expired.
	UndeliveredSeconds float64 `json:"undelivered_oldest_seconds"`

	Journal *JournalNow `json:"journal,omitempty"` // nil: it has not been looked at yet
	Space   *Space      `json:"space,omitempty"`   // nil: it is not known
}

// JournalNow is what the topics of a hub's shards retain.
type JournalNow struct {
	Topics  int       `json:"topics"`
	Entries int64     `json:"entries"`
	Bytes   int64     `json:"bytes"`
	Limit   int64     `json:"limit_bytes,omitempty"` // this hub's part of --retention-total; 0: none
	AsOf    time.Time `json:"as_of"`
}

// Space is the free space of a store, in bytes: of its disk, or up to the maxmemory of
// Redis. Under Least nothing new is stored.
type Space struct {
	Free  int64 `json:"free_bytes"`
	Least int64 `json:"least_bytes"`
}

// Loss is when a subscription loses a notification next, unless it accepts it before.
type Loss struct {
	At time.Time `json:"at"`
	// Reason is that of the gap: "gave_up" (--give-up) or "retention" (--retention-age).
	Reason         string `json:"reason"`
	SubscriptionID string `json:"subscription_id"`
	Topic          string `json:"topic"`
	Callback       string `json:"callback"`
}

// MaxShown is how many bytes of a topic, a callback and a reason Now has of other hubs; longer ones
// are cut as Cut does.
const MaxShown = 300

// Laggard is a subscription that fails or is behind.
type Laggard struct {
	ID       string `json:"id"`
	Topic    string `json:"topic"`
	Callback string `json:"callback"`
	Lag      Lag    `json:"lag"`
	// FailingSince is when its next notification failed first; zero: it did not.
	FailingSince  time.Time `json:"failing_since,omitzero"`
	Attempt       uint32    `json:"attempt,omitempty"`
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	LastStatus    int       `json:"last_status,omitempty"`
	LastError     string    `json:"last_error,omitempty"` // as in Subscription
	Suspect       bool      `json:"suspect_host,omitempty"`
}

// FailingHost is a host of callbacks at which subscriptions fail.
type FailingHost struct {
	Host    string `json:"host"` // with its port
	Failing int    `json:"failing"`
	// FailingSince, LastStatus and LastError are those of the one that has failed the longest.
	FailingSince time.Time `json:"failing_since,omitzero"`
	LastStatus   int       `json:"last_status,omitempty"`
	LastError    string    `json:"last_error,omitempty"`
	Suspect      bool      `json:"suspect_host,omitempty"`
}

// EventNames are the values of Event.Name: the events of the log about a hub as a whole. Strangers can
// cause none of them at will, or they would push out the others.
var EventNames = []string{
	"listening", "delivery_started", "stopping", "part_failed", "handler_panic", "few_open_files",
	"shards_taken", "shards_yielded", "shards_not_yielded", "shards_lost", "shards_not_taken", "hubs_changed",
	"cluster_failed", "cluster_recovered", "hub_urls_differ",
	EventOperatorAction, "reloaded", "reload_failed", "token_reloaded", "token_reload_failed", "tls_loaded", "tls_expiring",
	"store_refused", "store_accepted", "partition_emptied", "tail_lost", "subscriptions_lost", "rolled_back",
	"notification_damaged", "retention_failed", "sweep_failed", "clock_stepped", "clock_settled",
}

// Event is something that happened to a hub, as its log reports it.
type Event struct {
	At    time.Time `json:"at"`
	Node  string    `json:"node"`
	Name  string    `json:"event"` // as in the log
	Level string    `json:"level"` // "info", "warn" or "error"
	Text  string    `json:"text"`
}

// Total adds up the counts of all hubs. Its lag and its oldest are the largest.
func (n *Now) Total() (t HubNow) {
	for _, h := range n.Hubs {
		t.Active, t.Failing, t.Pending, t.Ended = t.Active+h.Active, t.Failing+h.Failing, t.Pending+h.Pending, t.Ended+h.Ended
		t.Paused, t.Suspect, t.InFlight = t.Paused+h.Paused, t.Suspect+h.Suspect, t.InFlight+h.InFlight
		t.DeliveriesPerSecond, t.FailuresPerSecond = t.DeliveriesPerSecond+h.DeliveriesPerSecond, t.FailuresPerSecond+h.FailuresPerSecond
		t.PassedOver += h.PassedOver
		t.LagSeconds, t.UndeliveredSeconds = max(t.LagSeconds, h.LagSeconds), max(t.UndeliveredSeconds, h.UndeliveredSeconds)
	}
	return t
}

const (
	// littleSpace is how many times the least free space counts as little.
	littleSpace = 4
	// muchRetained is the part of the limit of retention that counts as much.
	muchRetained = 0.9
)

// losses are the events about something that was lost.
var losses = []string{"tail_lost", "partition_emptied", "subscriptions_lost", "notification_damaged"}

// meanwhile says what publishers and subscribers notice while a check of GET /readyz fails.
var meanwhile = map[string]string{
	"store":      " Until it answers, publishers and subscribers get 503, and deliveries may wait.",
	"high water": " Until there is room, publishers and subscribers get 503; deliveries go on.",
}

// Wrong are sentences about what is wrong; none: all is well.
func (n *Now) Wrong() (wrong []string) {
	if n.HubsError != "" {
		wrong = append(wrong, "The store does not show how the other hubs are: "+n.HubsError)
	}
	for _, h := range n.Hubs {
		say := func(format string, args ...any) {
			wrong = append(wrong, "Hub "+h.ID+" "+fmt.Sprintf(format, args...))
		}
		if h.Draining {
			say("is shutting down: it accepts no more publishes and finishes its deliveries.")
		}
		for _, why := range h.NotReady {
			check, _, _ := strings.Cut(why, ":")
			if check == "draining" && h.Draining {
				continue // it was said
			}
			say("is not ready: %s.%s", strings.TrimSuffix(why, "."), meanwhile[check])
		}
		if n := h.UnreadableSubscriptions; n > 0 {
			say("continues without %s that it cannot read. Its log says which (subscription_unreadable).", quantity.Count(n, "subscription", "subscriptions"))
		}
		if n := h.UnreadableTopics; n > 0 {
			say("continues without %s that it cannot read. Its log says which (topic_unreadable).", quantity.Count(n, "topic", "topics"))
		}
		if h.AsOf.IsZero() {
			say("is alive, but has not reported how it is.")
		}
		// With less than the least, it says that it is not ready.
		if s := h.Space; s != nil && s.Free < littleSpace*s.Least && (s.Free >= s.Least || len(h.NotReady) == 0) {
			say("has %s of free space left; under %s it stores nothing new.", quantity.BytesText(s.Free), quantity.BytesText(s.Least))
		}
		if j := h.Journal; j != nil && j.Limit > 0 && float64(j.Bytes) > muchRetained*float64(j.Limit) {
			say("retains %s of the %s that its topics may: the oldest notifications are about to go.", quantity.BytesText(j.Bytes), quantity.BytesText(j.Limit))
		}
	}
	told := map[string]bool{}
	for _, e := range n.Events { // the latest of each kind
		if slices.Contains(losses, e.Name) && !told[e.Name] {
			told[e.Name] = true
			wrong = append(wrong, "At "+e.At.UTC().Format("15:04")+" hub "+e.Node+" found: "+strings.TrimSuffix(e.Text, ".")+".")
		}
	}
	t := n.Total()
	if t.Failing > 0 {
		verb := " subscriptions fail"
		if t.Failing == 1 {
			verb = " subscription fails"
		}
		wrong = append(wrong, quantity.NumberText(t.Failing)+verb+", of "+quantity.NumberText(t.Failing+t.Active)+"; the hub tries again.")
	}
	if t.PassedOver > 0 {
		wrong = append(wrong, "In the last hour "+quantity.Count(t.PassedOver, "delivery was", "deliveries were")+" given up. Each is a gap, which the page of its subscription names.")
	}
	return wrong
}

// Cause says why the last attempt of a delivery failed, from LastStatus and LastError;
// empty: it did not.
func Cause(status int, failure string) string {
	switch failure {
	case "":
	case "timeout":
		return "does not answer in time"
	case "connect":
		return "cannot be connected to"
	case "refused":
		return "has an address that this hub does not call"
	default:
		return "breaks off the exchange"
	}
	if status < http.StatusMultipleChoices {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("answers %d %s", status, http.StatusText(status)))
}

func (a *api) now(w http.ResponseWriter, r *http.Request) error {
	return writeJSON(w, a.Fleet(r.Context()))
}
