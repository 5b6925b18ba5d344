package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/internal/engine/figures"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// watched is what metrics are about. All functions are called from several goroutines.
type watched struct {
	// status returns the state of each set; of `rssub listen` there is one.
	status func() ([]destination.SetStatus, error)
	// ready returns why notifications can't be taken yet, and stored why the state or the copy
	// can't be written; nil: there is no reason.
	ready, stored func() error
	dir           string // whose disk counts
}

var (
	outcomes     = []string{destination.Copied, destination.Deleted, destination.Failed, destination.HeldBack}
	auditResults = []string{"in_sync", "repaired", "wrong", "failed"}
	findings     = []string{destination.Missing, destination.Differing, destination.Extra}
	subscription = []string{"pending", "active", "expired", "denied", "ended"}
	ways         = []subscriber.Via{subscriber.ViaCallback, subscriber.ViaStream, subscriber.ViaPoll}
	streams      = []string{subscriber.StreamOpen, subscriber.StreamBroken, subscriber.StreamWaiting, subscriber.StreamNone}
	gapStates    = []string{subscriber.GapOpen, subscriber.GapRepaired, subscriber.GapBaseline}
	refusals     = []string{"unasked", "unknown_callback", "ended", "invalid", "too_large", "unsigned", "wrong_signature", "weak_signature"}
)

// metrics are what the operator's listener shows of a Destination. Counters of files change when
// something happens; all else reads now, which look refreshes.
type metrics struct {
	of        watched
	sources   *sources // of --sources; nil: there is one Source
	resources figures.Counters[string]
	bytes     prometheus.Counter
	took      prometheus.Histogram
	audits    figures.Counters[string]
	wrong     figures.Counters[string]
	now       state
}

// state is what the gauges show, over all sets.
type state struct {
	sets, troubled, unsubscribed    int
	subscriptions                   [5]int // by the index in subscription
	leaseEnds                       time.Time
	ways                            [3]int // by the index in ways
	streams                         [4]int // by the index in streams
	reconnects                      uint64
	lastEvent                       time.Time
	until, baseline, synced         time.Time // of the set that is the furthest behind
	lag                             time.Duration
	backlog, early                  int
	backlogBytes                    int64
	lastReceived                    time.Time
	received, duplicates, postponed uint64
	overtook                        uint64
	refused                         [8]uint64 // by the index in refusals
	gaps                            [3]int    // by the index in gapStates
	failed, deletionsHeld           int
	freeBytes                       int64
}

// newMetrics returns the metrics of a Destination. Set of before the server serves.
func newMetrics(server *cli.Server, minFree int64, more ...prometheus.Collector) *metrics {
	set := server.Figures("rssub", "Destination", cli.BuildVersion(version))
	m := &metrics{}
	m.resources = figures.Family(set, "rssub_resources_total", "Results for resources of the copy; failed: it was unavailable, and is tried again; held: --max-delete keeps it.", "outcome", outcomes...)
	m.bytes = set.Counter("rssub_copied_bytes_total", "Bytes of the resources that were copied.")
	m.took = set.Histogram("rssub_copy_duration_seconds", "Time to copy one resource.", .01, .05, .2, 1, 5, 30, 120, 600)
	m.audits = figures.Family(set, "rssub_audits_total", "Audits of --audit-every by result; wrong: the copy is not in sync after the repair, failed: it could not be compared.", "result", auditResults...)
	m.wrong = figures.Family(set, "rssub_audit_findings_total", "What audits of --audit-every found wrong before they repaired it.", "finding", findings...)

	n := &m.now
	gauge := func(name, help string, value func() float64) { set.Gauge(name, help, nil, value) }
	count := func(name, help string, value *uint64) { set.Count(name, help, nil, figures.Number(value)) }
	gauge("rssub_sets", "Sets that are copied; one for rssub listen.", figures.Number(&n.sets))
	gauge("rssub_sets_troubled", "Sets that can't be subscribed to, or whose gaps can't be repaired.", figures.Number(&n.troubled))
	gauge("rssub_sets_unsubscribed", "Sets that are to be pushed, without a subscription in force or an open stream.", figures.Number(&n.unsubscribed))
	for i, label := range ways {
		set.Gauge("rssub_sets_by_way", "Sets by the way in which their changes come now.", prometheus.Labels{"way": string(label)}, figures.Number(&n.ways[i]))
	}
	for i, label := range streams {
		set.Gauge("rssub_streams", "Streams of hubs that are read, by state; broken: it is tried again, waiting: the hub has nothing of the topic yet, none: the hub has none for this reader.", prometheus.Labels{"state": label}, figures.Number(&n.streams[i]))
	}
	count("rssub_stream_reconnects_total", "How often a stream opened again after it had broken or ended.", &n.reconnects)
	gauge("rssub_stream_event_timestamp_seconds", "When the last notification or gap came by a stream; 0: none came yet.", figures.At(&n.lastEvent))
	for i, label := range subscription {
		set.Gauge("rssub_subscriptions", "Subscriptions by state.", prometheus.Labels{"state": label}, figures.Number(&n.subscriptions[i]))
	}
	gauge("rssub_lease_expires_timestamp_seconds", "When the first lease of the subscriptions in force ends; 0: none is in force.", figures.At(&n.leaseEnds))
	gauge("rssub_lag_seconds", "For how long the oldest announced change has waited to be carried out or repaired; 0: nothing waits.", figures.Seconds(&n.lag))
	gauge("rssub_received_until_timestamp_seconds", "Up to when all changes were received, for the set that is the furthest behind; 0: nothing was pushed yet.", figures.At(&n.until))
	gauge("rssub_received_timestamp_seconds", "When the last notification came; 0: none came yet.", figures.At(&n.lastReceived))
	gauge("rssub_baseline_timestamp_seconds", "The time of the Source's state in the last baseline, for the set with the oldest; 0: a set has none.", figures.At(&n.baseline))
	gauge("rssub_synced_timestamp_seconds", "When a baseline or changes were last carried out since the start, for the set where that was the longest ago; 0: not yet.", figures.At(&n.synced))
	gauge("rssub_backlog_notifications", "Notifications that wait to be carried out.", figures.Number(&n.backlog))
	gauge("rssub_backlog_bytes", "Bytes of these notifications.", figures.Number(&n.backlogBytes))
	gauge("rssub_early_notifications", "Notifications that wait for those before them.", figures.Number(&n.early))
	count("rssub_notifications_received_total", "Notifications that were stored since the state was new.", &n.received)
	count("rssub_notifications_early_total", "Stored notifications that came before an earlier one.", &n.overtook)
	count("rssub_notifications_duplicate_total", "Notifications that the hub delivered again.", &n.duplicates)
	count("rssub_notifications_postponed_total", "How often the hub was asked to deliver again later.", &n.postponed)
	for i, why := range refusals {
		set.Count("rssub_callback_refused_total", "Requests to the callback that were refused, by reason.", prometheus.Labels{"reason": why}, figures.Number(&n.refused[i]))
	}
	for i, label := range gapStates {
		set.Gauge("rssub_gaps", "The latest gaps by state; open: it is being repaired, repaired, baseline: only a new baseline could close it.",
			prometheus.Labels{"state": label}, figures.Number(&n.gaps[i]))
	}
	gauge("rssub_failed_resources", "Resources that are unavailable, and tried again.", figures.Number(&n.failed))
	gauge("rssub_deletions_held", "Files that the Source no longer has and --max-delete keeps.", figures.Number(&n.deletionsHeld))
	gauge("rssub_free_bytes", "Free bytes on the disk of the copy, or of the state of rssub listen.", figures.Number(&n.freeBytes))
	gauge("rssub_free_min_bytes", "With fewer free bytes nothing is fetched (--min-free-disk); 0: no limit.", figures.Number(&minFree))
	server.Operate(m.ready, m.look, more...)
	return m
}

// event counts the outcome for a resource.
func (m *metrics) event(e destination.Event) {
	m.resources.One(e.What)
	if e.What == destination.Copied {
		m.bytes.Add(float64(e.Bytes))
		m.took.Observe(e.Took.Seconds())
	}
}

// audited counts an audit.
func (m *metrics) audited(r destination.AuditReport, err error) {
	switch {
	case err != nil:
		m.audits.One("failed")
		return
	case !r.InSync:
		m.audits.One("wrong")
	case r.Repaired != nil:
		m.audits.One("repaired")
	default:
		m.audits.One("in_sync")
	}
	for what, n := range map[string]int{destination.Missing: r.Found.Missing, destination.Differing: r.Found.Differing, destination.Extra: r.Found.Extra} {
		m.wrong.Add(what, n)
	}
}

// look reads the state of the Destination.
func (m *metrics) look() {
	n := &m.now
	*n = state{}
	n.freeBytes, _ = disk.Free(m.of.dir) // 0 if that is unknown
	all, err := m.of.status()
	if err != nil && len(all) == 0 {
		return // readiness says why
	}
	for i := range all {
		n.add(&all[i], i == 0)
	}
}

// add adds a set.
func (n *state) add(s *destination.SetStatus, first bool) {
	n.sets++
	for sum, at := range map[*time.Time]time.Time{&n.baseline: s.BaselineAt, &n.synced: s.SyncedAt} {
		if first || at.Before(*sum) {
			*sum = at
		}
	}
	if i := slices.Index(ways, s.Way); i >= 0 {
		n.ways[i]++
	}
	n.failed += s.Failed
	n.deletionsHeld += s.DeletionsHeld
	if s.Framework != nil { // without them the documents are read as often as before: that is no trouble
		n.addReceived(s.Framework)
	}
	if s.AsOf.IsZero() {
		return // it has no topic
	}
	if n.until.IsZero() || s.Until.Before(n.until) {
		n.until = s.Until
	}
	if !s.Behind.IsZero() {
		n.lag = max(n.lag, time.Since(s.Behind))
	}
	if s.Trouble != "" {
		n.troubled++
	}
	if !n.addReceived(&s.Status) && s.Way != subscriber.ViaPoll {
		n.unsubscribed++
	}
	for _, g := range s.Gaps {
		n.gaps[slices.Index(gapStates, g.State)]++
	}
}

// addReceived adds what comes from a hub, and reports whether a subscription is active or a stream
// open.
func (n *state) addReceived(s *subscriber.Status) bool {
	n.addCounts(&s.Counts)
	active := n.addStream(s.Stream)
	for _, sub := range s.Subscriptions {
		n.subscriptions[slices.Index(subscription, sub.State)]++
		if sub.State == "active" {
			active = true
			if n.leaseEnds.IsZero() || sub.ExpiresAt.Before(n.leaseEnds) {
				n.leaseEnds = sub.ExpiresAt
			}
		}
	}
	return active
}

// addStream adds a stream, and reports whether it is open; nil: none is read.
func (n *state) addStream(s *subscriber.StreamStatus) bool {
	if s == nil {
		return false
	}
	n.streams[slices.Index(streams, s.State)]++
	n.reconnects += uint64(s.Reconnects) //nolint:gosec // a count
	if s.LastEvent.After(n.lastEvent) {
		n.lastEvent = s.LastEvent
	}
	return s.State == subscriber.StreamOpen
}

func (n *state) addCounts(c *subscriber.Counts) {
	n.backlog += c.Batches
	n.backlogBytes += c.Backlog
	n.early += c.Held
	n.received += c.Received
	n.duplicates += c.Duplicates
	n.overtook += c.Early
	n.postponed += c.Postponed
	if c.LastReceived.After(n.lastReceived) {
		n.lastReceived = c.LastReceived
	}
	for why, times := range c.Refused {
		why, _, _ = strings.Cut(why, ":") // after it comes which method of signatures
		if i := slices.Index(refusals, strings.ReplaceAll(why, " ", "_")); i >= 0 {
			n.refused[i] += times
		}
	}
}

// ready returns the checks of GET /readyz. A subscription or stream is none of them: the hub must be able
// to reach the callback before it can be in force, and without one changes are polled.
func (m *metrics) ready() []admin.Check {
	if m.sources != nil {
		return m.sources.ready()
	}
	all, err := m.of.status()
	stored := errors.Join(err, m.of.stored())
	var says []string
	for _, s := range all {
		name := cmp.Or(s.Set, s.Topic)
		if s.Trouble != "" {
			says = append(says, fmt.Sprintf("%s: %s", name, s.Trouble))
		}
		if s.Way != "" {
			says = append(says, fmt.Sprintf("%s: the way is %s", name, s.Way))
		}
		if s.Stream != nil {
			says = append(says, fmt.Sprintf("%s: stream %s", name, describeStream(s.Stream)))
		}
		for _, sub := range s.Subscriptions {
			says = append(says, fmt.Sprintf("%s: subscription %s", name, describe(&sub)))
		}
	}
	how := errors.New(cmp.Or(strings.Join(says, "; "), "there is nothing to subscribe to yet"))
	return []admin.Check{
		{Name: "notifications", Holds: "they are accepted", Err: cli.NameFlags(m.of.ready(), optionFlags)},
		{Name: "state", Holds: "it can be written, and there is room", Err: cli.NameFlags(stored, optionFlags)},
		{Name: "subscriptions", Holds: cli.NameFlags(how, optionFlags).Error()},
	}
}
