package telemetry

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/admin"
)

// Reloadable is what a hub reads again when its files change.
type Reloadable string

// What there is.
const (
	ReloadPublishers       Reloadable = "publishers"
	ReloadToken            Reloadable = "admin_token"
	ReloadReadonlyToken    Reloadable = "admin_readonly_token"
	ReloadCertificate      Reloadable = "certificate"
	ReloadAdminCertificate Reloadable = "admin_certificate"
)

var reloadables = []Reloadable{ReloadPublishers, ReloadToken, ReloadReadonlyToken, ReloadCertificate, ReloadAdminCertificate}

// Reload is what came of reading something again.
type Reload struct {
	At     time.Time
	Failed bool // what was in force before still is
}

// Listeners name a listener in a label.
const (
	PublicListener = "public"
	AdminListener  = "admin"
)

// Outlook are the sources of what an operator wants to know before it happens. They are
// asked at each scrape, as those of Sources.
type Outlook struct {
	// Journal is what the topics of this hub retain; nil: it is not known yet.
	Journal func() *admin.JournalNow
	// FirstLoss is when the next notification is lost; zero: none is in sight.
	FirstLoss func() time.Time
	// LossAfter is how long after its first attempt a notification is lost; 0: never.
	LossAfter time.Duration
	// Certificates are when those that are shown run out, by listener.
	Certificates func() map[string]time.Time
	// Reloads are the latest of each thing that was read again.
	Reloads func() map[Reloadable]Reload
}

// outlook is the figures of an Outlook.
type outlook struct {
	from                          Outlook
	topics, entries, bytes, limit prometheus.Gauge
	used, firstLoss               prometheus.Gauge
	certificates                  map[string]prometheus.Gauge
	reloaded, reloadSuccess       map[Reloadable]prometheus.Gauge
}

func (m *Metrics) registerOutlook(from Outlook) {
	o := &m.outlook
	o.from = from
	plain := func(name, help string) prometheus.Gauge { return m.gauge(name, help, nil) }
	o.topics = plain("rshub_journal_topics", "Topics of this hub's shards that retain notifications.")
	o.entries = plain("rshub_journal_notifications", "Notifications that these topics retain.")
	o.bytes = plain("rshub_journal_bytes", "Bytes of the bodies of these notifications.")
	o.limit = plain("rshub_journal_limit_bytes", "How many bytes they may be: this hub's part of --retention-total; 0: any number.")
	o.used = plain("rshub_journal_used_ratio", "The part of the limit that is used, 0 to 1; at 1 the oldest notifications are trimmed. 0 without a limit.")
	o.firstLoss = plain("rshub_first_loss_seconds", "In how many seconds a subscription of this hub loses its next notification, by --give-up or --retention-age, unless it accepts it before; +Inf: none fails.")
	o.firstLoss.Set(math.Inf(1))
	plain("rshub_loss_after_seconds", "How long after its first attempt a notification is lost to a subscription: the smaller of --give-up and --retention-age; 0: it is not.").Set(from.LossAfter.Seconds())
	o.certificates = map[string]prometheus.Gauge{}
	for _, listener := range []string{PublicListener, AdminListener} {
		o.certificates[listener] = m.gauge("rshub_certificate_not_after_timestamp_seconds", "When the certificate of a listener runs out; 0: the listener has none.", prometheus.Labels{"listener": listener})
	}
	o.reloaded, o.reloadSuccess = map[Reloadable]prometheus.Gauge{}, map[Reloadable]prometheus.Gauge{}
	for _, what := range reloadables {
		labels := prometheus.Labels{"what": string(what)}
		o.reloaded[what] = m.gauge("rshub_reload_timestamp_seconds", "When something was last read again after the start; 0: it was not.", labels)
		o.reloadSuccess[what] = m.gauge("rshub_reload_success", "1 if the last read of it went well, 0 if what was in force before still is.", labels)
		o.reloadSuccess[what].Set(1)
	}
}

// truth is 1 or 0.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// look asks the sources.
func (o *outlook) look() {
	if o.from.Journal != nil {
		if j := o.from.Journal(); j != nil {
			o.topics.Set(float64(j.Topics))
			o.entries.Set(float64(j.Entries))
			o.bytes.Set(float64(j.Bytes))
			o.limit.Set(float64(j.Limit))
			if j.Limit > 0 {
				o.used.Set(float64(j.Bytes) / float64(j.Limit))
			}
		}
	}
	if o.from.FirstLoss != nil {
		left := math.Inf(1)
		if at := o.from.FirstLoss(); !at.IsZero() {
			left = max(time.Until(at).Seconds(), 0)
		}
		o.firstLoss.Set(left)
	}
	if o.from.Certificates != nil {
		for listener, end := range o.from.Certificates() {
			o.certificates[listener].Set(unix(end))
		}
	}
	if o.from.Reloads != nil {
		for what, r := range o.from.Reloads() {
			o.reloaded[what].Set(unix(r.At))
			o.reloadSuccess[what].Set(truth(!r.Failed))
		}
	}
}
