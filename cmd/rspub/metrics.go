package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/engine/figures"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
)

// The outcomes of a POST of a notification to a hub, as labels name them.
const (
	postAccepted  = "accepted"
	postDuplicate = "duplicate"   // the hub had it already
	postRefused   = "refused"     // 4xx
	postFailed    = "unavailable" // 5xx, or no answer
)

// hubStates are the states of a topic at a hub.
var hubStates = []publisher.State{publisher.UpToDate, publisher.Sending, publisher.Waiting, publisher.Stopped}

// metrics are what the operator's listener shows of a Source. Counters change when something
// happens; gauges read now, which look refreshes.
type metrics struct {
	source   *source.Source
	stateDir string

	changes   figures.Counters[resourcesync.ChangeType]
	posts     map[string]figures.Counters[string] // by hub
	postTime  prometheus.Histogram
	postBytes prometheus.Counter
	documents prometheus.Counter

	now state
}

// state is what the gauges show.
type state struct {
	sets, resources, documents int
	scanned, changed           time.Time
	failing, unwatched         int
	held, problems             int
	queued, kept, full         int
	keptBytes, freeBytes       int64
	hubs                       map[string]*hubState // by the URL in --hub
}

// hubState says how far one hub is, over all topics.
type hubState struct {
	accepted     time.Time
	oldest       time.Duration
	pending      int
	pendingBytes int64
	failures     int
	topics       [4]int // by the index in hubStates
}

// newMetrics returns the metrics of a Source that pushes to some hubs, and those that more adds.
func newMetrics(server *cli.Server, version, stateDir string, hubs []string, more ...func(*figures.Set)) *metrics {
	set := server.Figures("rspub", "Source", version)
	for _, add := range more {
		add(set)
	}
	m := &metrics{stateDir: stateDir, posts: map[string]figures.Counters[string]{}}
	m.changes = figures.Family(set, "rspub_changes_total", "Changes of resources that were recorded, by kind.", "change", resourcesync.ChangeTypes()...)
	m.postTime = set.Histogram("rspub_post_duration_seconds", "Time of one POST of a notification to a hub, whatever its result.", .01, .05, .2, 1, 5, 30, 120)
	m.postBytes = set.Counter("rspub_posted_bytes_total", "Bytes of the notifications that hubs accepted.")
	m.documents = set.Counter("rspub_documents_written_total", "Documents that appeared or changed.")

	n := &m.now
	n.hubs = map[string]*hubState{}
	gauge := func(name, help string, value func() float64) { set.Gauge(name, help, nil, value) }
	gauge("rspub_sets", "Sets that are published.", figures.Number(&n.sets))
	gauge("rspub_resources", "Resources that are published.", figures.Number(&n.resources))
	gauge("rspub_documents", "Documents that others name; parts of an index do not count.", figures.Number(&n.documents))
	gauge("rspub_change_timestamp_seconds", "When the last change was recorded; 0: none was.", figures.At(&n.changed))
	gauge("rspub_scan_timestamp_seconds", "When the whole folder was last scanned; of several folders, the one that was scanned the longest ago; 0: not yet since the start.", figures.At(&n.scanned))
	gauge("rspub_sets_failing", "Sets whose folder can't be read, or whose documents or outbox can't be written.", figures.Number(&n.failing))
	gauge("rspub_folders_unwatched", "Folders that the system does not report changes of, so that only scans find them.", figures.Number(&n.unwatched))
	gauge("rspub_deletions_held", "Missing resources that are not published as deleted because of --max-deleted.", figures.Number(&n.held))
	gauge("rspub_problem_files", "Files and folders that can't be read or published, at most 100 of a set.", figures.Number(&n.problems))
	gauge("rspub_queued_changes", "Changes that are in no notification yet.", figures.Number(&n.queued))
	gauge("rspub_outbox_notifications", "Notifications on disk, including those that all hubs have.", figures.Number(&n.kept))
	gauge("rspub_outbox_bytes", "Bytes of these notifications.", figures.Number(&n.keptBytes))
	gauge("rspub_outboxes_full", "Topics whose notifications have reached --outbox-limit, so that no more changes are accepted for them.", figures.Number(&n.full))
	gauge("rspub_state_free_bytes", "Free bytes on the disk of --state-dir.", figures.Number(&n.freeBytes))
	for _, hub := range hubs {
		if n.hubs[hub] != nil {
			continue // named twice
		}
		h := &hubState{}
		n.hubs[hub] = h
		of := prometheus.Labels{"hub": hub}
		m.posts[hub] = figures.FamilyOf(set, "rspub_posts_total", "POSTs of notifications to a hub by outcome; refused: the hub answers 4xx, unavailable: 5xx or no answer.",
			"outcome", of, postAccepted, postDuplicate, postRefused, postFailed)
		set.Gauge("rspub_hub_accepted_timestamp_seconds", "The end (until) of the last notification that the hub accepted; 0: none yet.", of, figures.At(&h.accepted))
		set.Gauge("rspub_hub_oldest_pending_seconds", "Age of the oldest notification that the hub does not have; 0: it has all.", of, figures.Seconds(&h.oldest))
		set.Gauge("rspub_hub_pending_notifications", "Notifications that the hub does not have.", of, figures.Number(&h.pending))
		set.Gauge("rspub_hub_pending_bytes", "Bytes of these notifications.", of, figures.Number(&h.pendingBytes))
		set.Gauge("rspub_hub_failures", "POSTs since the hub last accepted one.", of, figures.Number(&h.failures))
		for i, state := range hubStates {
			set.Gauge("rspub_hub_topics", "Topics by state at the hub; stopped: hub and Source disagree, and --resume has to decide.",
				prometheus.Labels{"hub": hub, "state": strings.ReplaceAll(string(state), " ", "_")}, figures.Number(&h.topics[i]))
		}
	}
	server.Operate(m.ready, m.look)
	return m
}

// hooks returns hooks that count what happens and pass it on.
func (m *metrics) hooks(next *events) source.Hooks {
	return source.Hooks{
		Recorded: func(set string, changes []source.Change) {
			for i := range changes {
				m.changes.One(changes[i].Change)
			}
			next.recorded(set, changes)
		},
		Posted: func(set string, p publisher.Posted) {
			m.posted(p)
			next.posted(set, p)
		},
		Built: func(set string, urls []string) {
			m.documents.Add(float64(len(urls)))
			next.built(set, urls)
		},
	}
}

// posted counts a POST.
func (m *metrics) posted(p publisher.Posted) {
	m.postTime.Observe(p.Took.Seconds())
	outcome := postAccepted
	var refused *publisher.RefusedError
	switch {
	case errors.As(p.Err, &refused) && refused.Status < http.StatusInternalServerError:
		outcome = postRefused
	case p.Err != nil:
		outcome = postFailed
	case p.Receipt.Duplicate:
		outcome = postDuplicate
	}
	if p.Err == nil {
		m.postBytes.Add(float64(p.Bytes))
	}
	m.posts[p.Hub].One(outcome)
}

// look reads the state of the Source.
func (m *metrics) look() {
	n := &m.now
	*n = state{hubs: n.hubs}
	for _, h := range n.hubs {
		*h = hubState{}
	}
	n.freeBytes, _ = disk.Free(m.stateDir) // 0 if that is unknown
	for _, s := range m.source.Status().Sets {
		if n.sets++; n.sets == 1 || s.Folder.Scanned.Before(n.scanned) {
			n.scanned = s.Folder.Scanned
		}
		if s.Changed.After(n.changed) {
			n.changed = s.Changed
		}
		n.resources += s.Folder.Resources
		n.documents += len(s.Documents)
		n.held += s.Folder.Held
		n.problems += len(s.Folder.Problems)
		if !s.Folder.Watching {
			n.unwatched++
		}
		if wrong(&s) != nil {
			n.failing++
		}
		for _, p := range topics(&s) {
			n.topic(p)
		}
	}
}

// topic adds the state of a topic.
func (n *state) topic(p *publisher.Status) {
	n.queued += p.Queued
	n.kept += p.Kept
	n.keptBytes += p.KeptBytes
	if p.Full {
		n.full++
	}
	for i := range p.Hubs {
		from := &p.Hubs[i]
		h := n.hubs[from.URL]
		if from.Until.After(h.accepted) {
			h.accepted = from.Until
		}
		if !from.Oldest.IsZero() {
			h.oldest = max(h.oldest, time.Since(from.Oldest))
		}
		h.pending += from.Pending
		h.pendingBytes += from.PendingBytes
		h.failures = max(h.failures, from.Failures)
		h.topics[slices.Index(hubStates, from.State)]++
	}
}

// topics are those of a set; none without hubs.
func topics(s *source.SetStatus) []*publisher.Status {
	if s.Changes == nil {
		return nil
	}
	return []*publisher.Status{s.Changes, s.Framework}
}

// wrong returns why a set cannot be published completely; nil: it can.
func wrong(s *source.SetStatus) error {
	if s.Folder.Err != nil {
		return s.Folder.Err
	}
	for _, p := range topics(s) {
		if p.Error != "" {
			return fmt.Errorf("the outbox of %s: %s", p.Topic, p.Error)
		}
	}
	if errors.Is(s.Err, publisher.ErrFull) {
		return nil // that is because of a hub: see ready
	}
	return s.Err
}

// ready returns the checks of GET /readyz. A hub that is away does not make the Source unready:
// it serves its documents all the same, and the hub must be able to fetch them.
func (m *metrics) ready() []admin.Check {
	scan := admin.Check{Name: "scan", Holds: "each folder was scanned"}
	sets := admin.Check{Name: "sets", Holds: "folders can be read, and documents and the outbox written"}
	var hubs, full []string
	for _, s := range m.source.Status().Sets {
		if !s.Folder.Ready && scan.Err == nil {
			scan.Err = fmt.Errorf("the first scan of %s is not over", cmp.Or(s.Name, "the folder"))
		}
		if err := wrong(&s); err != nil && s.Name != "" {
			sets.Err = errors.Join(sets.Err, fmt.Errorf("%s: %w", s.Name, err))
		} else {
			sets.Err = errors.Join(sets.Err, err)
		}
		for _, p := range topics(&s) {
			if p.Full {
				full = append(full, fmt.Sprintf("the notifications of %s have reached --outbox-limit (%s), because a hub does not have them; look at the hub, or raise the limit", p.Topic, quantity.BytesText(p.MaxStored)))
			}
			for _, h := range p.Hubs {
				if h.State == publisher.Waiting || h.State == publisher.Stopped {
					hubs = append(hubs, fmt.Sprintf("%s is %s with %s for %s: %s", h.URL, h.State, quantity.Count(h.Pending, "notification", "notifications"), p.Topic, stoppedText(p.Topic, &h)))
				}
			}
		}
	}
	outbox := admin.Check{Name: "outbox", Holds: cmp.Or(strings.Join(full, "; "), "there is room for notifications")}
	return []admin.Check{scan, sets, outbox, {Name: "hubs", Holds: cmp.Or(strings.Join(hubs, "; "), "all hubs accept notifications")}}
}
