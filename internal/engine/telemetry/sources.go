package telemetry

import (
	"time"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub/history"
	"github.com/rshub/rshub/subscriptions"
)

// Sources are functions for values that no event reports to Metrics. A nil function is not
// called.
type Sources struct {
	// Now is called at each scrape. It must answer at once, however much the hub stores.
	Now func() Now
	// Space returns how many bytes of the store are free, and with how few it stores nothing new;
	// false: unknown. It is called every few seconds, since it may be slow.
	Space func() (free, least int64, ok bool)
	// LossAfter is how long after its first attempt a notification is lost; 0: never.
	LossAfter time.Duration
}

// Now is the present state of a hub. Zero values stand for what is not known yet.
type Now struct {
	Ready bool
	// ShardsOwned is how many shards the hub owns, and HubsLive how many hubs live.
	ShardsOwned, HubsLive int
	// ClockStep is how far the machine's clock is ahead of the time that the hub
	// believes.
	ClockStep     time.Duration
	Subscriptions subscriptions.Counts
	Delivery      delivery.Stats
	Lags          delivery.LagReport
	// Streams are the counts of streams.
	Streams history.Stats
	// Journal is what the topics of this hub retain.
	Journal admin.JournalNow
	// FirstLoss is when the next notification is lost; zero: none is in sight.
	FirstLoss time.Time
	// UnreadableSubscriptions and UnreadableTopics are those that the hub continues without.
	UnreadableSubscriptions, UnreadableTopics int64
	// UpgradePending says that the hubs write the store for the version before this one.
	UpgradePending bool
	// Certificates are when those that are in use expire, by listener.
	Certificates map[string]time.Time
	// Reloads are the last results of what was read again.
	Reloads map[Reloadable]Reload
}

// Reloadable is what a hub reads again when its files change.
type Reloadable string

// What a hub reads again.
const (
	ReloadPublishers       Reloadable = "publishers"
	ReloadToken            Reloadable = "admin_token"
	ReloadReadonlyToken    Reloadable = "admin_readonly_token"
	ReloadCertificate      Reloadable = "certificate"
	ReloadAdminCertificate Reloadable = "admin_certificate"
)

var reloadables = []Reloadable{ReloadPublishers, ReloadToken, ReloadReadonlyToken, ReloadCertificate, ReloadAdminCertificate}

// Reload is the result of reading something again.
type Reload struct {
	At     time.Time
	Failed bool // the hub still uses what it read before
}

// The listeners, as labels name them.
const (
	PublicListener = "public"
	AdminListener  = "admin"
)
