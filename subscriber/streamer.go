package subscriber

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/quiet"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
)

// place is how far the stream of a hub was received.
type place struct {
	Topic    string `json:"topic"`
	Hub      string `json:"hub"`
	Position string `json:"position"`
	// Until is how far the inbox was complete then.
	Until time.Time `json:"until,omitzero"`
}

func readPlace(tx *boltfile.Tx) (p place) {
	tx.Bucket(metaBucket).GetJSON(placeKey, &p)
	return p
}

// after returns where the stream of a hub goes on, when the inbox is complete up to an instant:
// at the position, unless the inbox got further in another way since then.
func (p *place) after(topic, hub string, until time.Time) string {
	same := p.Position != "" && p.Topic == topic
	switch {
	case same && sameHub(p.Hub, hub) && !until.After(p.Until):
		return p.Position
	case !until.IsZero():
		return resourcesync.FormatDatetime(until)
	case same:
		return p.Position
	}
	return ""
}

// streamer receives notifications by the hub's stream.
type streamer struct {
	o        *Options
	log      *slog.Logger
	inbox    *inbox
	renewal  *renewal
	repairer *repairer
	troubles *troubles
	quiet    *quiet.Limit

	mu    sync.Mutex
	now   StreamStatus
	opens int
}

// run reads the stream until ctx ends. With ViaAuto the Change List is read every PollEvery while
// the hub has no stream, or does not come back; the hub is asked again.
func (t *streamer) run(ctx context.Context) {
	h := &hubStream{client: t.o.StreamClient, find: t.find, insecure: t.o.InsecureStream, maxBody: t.o.MaxBody}
	for {
		err := t.begin(ctx, h)
		if err == nil {
			err = h.read(ctx, func(n *Notification) error { return t.receive(ctx, h, n) })
		}
		if ctx.Err() != nil {
			return
		}
		wait := h.pause(err)
		t.report(h, err, wait)
		if !clock.Sleep(ctx, wait) {
			return
		}
	}
}

func (t *streamer) find(ctx context.Context) (topic, hub string, err error) {
	d, err := t.renewal.discover(ctx)
	if err != nil {
		return "", "", err
	}
	before, err := boltfile.Read(t.inbox.db, readPlace)
	return d.Topic, choose(d.Hubs, before.Hub), err
}

// begin finds the hub, and the place in its stream.
func (t *streamer) begin(ctx context.Context, h *hubStream) (err error) {
	if h.hub == "" {
		if h.topic, h.hub, err = h.find(ctx); err != nil {
			return err
		}
	}
	h.after, err = boltfile.Read(t.inbox.db, func(tx *boltfile.Tx) string {
		p := readPlace(tx)
		return p.after(h.topic, h.hub, t.inbox.tail(tx).Until)
	})
	return err
}

// report says how a connection ended. What lasts is logged once.
func (t *streamer) report(h *hubStream, err error, wait time.Duration) {
	auto, none, waits := t.o.Via == ViaAuto, lacksStream(err), waitsForTopic(err)
	now, text := StreamStatus{Hub: h.hub, State: StreamBroken, Why: "the hub ended it"}, "the stream of the hub cannot be read now; it is tried again"
	trouble := err
	if waits {
		now.State, trouble = StreamWaiting, nil
	}
	if none {
		now.State, text = StreamNone, "there is no stream that can be read; the hub is asked again later"
	}
	if none && auto {
		trouble = nil // it is as good as it gets
		text = "there is no stream that can be read, so the Source is asked for changes; the hub is asked again later"
	}
	if err != nil {
		now.Why = err.Error()
		t.troubles.set(subscribing, trouble)
	}
	switch changed := t.set(now); {
	case changed && waits:
		t.log.Info("the hub has nothing of the topic yet; it is asked again every few seconds", "event", "stream_waiting", "topic", t.o.Topic, "hub", h.hub)
	case changed && err != nil:
		t.log.Warn(text, "event", "stream_failed", "topic", t.o.Topic, "hub", h.hub, "error", err, "wait", wait)
	}
	if auto && (none || h.failures >= findAgain) && t.repairer.poll(true) && !none {
		t.log.Info("the stream has not opened yet, so the Source is asked for changes meanwhile", "event", "polling", "topic", t.o.Topic, "every", t.o.PollEvery)
	}
}

// lacksStream reports whether an error says that there is no stream to be read, until a person
// changes something. A stream that broke, and a hub that has nothing of the topic yet, pass.
func lacksStream(err error) bool {
	var status *StatusError
	var unanswered *web.UnansweredError
	switch {
	case errors.Is(err, ErrNoStream), errors.Is(err, ErrNoHub), errors.Is(err, ErrInsecure):
		return true
	case errors.As(err, &status):
		return !Away(err) && !waitsForTopic(err)
	}
	return errors.As(err, &unanswered) && !Away(err)
}

// opened says that the stream is open.
func (t *streamer) opened(h *hubStream) {
	if !t.set(StreamStatus{Hub: h.hub, State: StreamOpen}) {
		return
	}
	t.troubles.set(subscribing, nil)
	t.repairer.poll(false)
	t.log.Info("the stream of the hub is open", "event", "stream_open", "topic", h.topic, "hub", h.hub, "after", h.after)
}

// set replaces the status, and reports whether the state is another. One that lasts is of its
// beginning.
func (t *streamer) set(now StreamStatus) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.now
	now.Since, now.LastEvent = was.Since, was.LastEvent
	now.Hub = cmp.Or(now.Hub, was.Hub) // it is looked for again
	changed := was.Hub != now.Hub || was.State != now.State
	if changed {
		now.Since = time.Now()
		if now.State == StreamOpen {
			t.opens++
		}
	}
	if changed || was.Why != now.Why {
		defer t.inbox.changed.Broadcast()
	}
	now.Reconnects = max(0, t.opens-1)
	t.now = now
	return changed
}

// status returns the status; nil: no stream is read.
func (t *streamer) status() *StreamStatus {
	if !t.o.streams() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now
	now.State = cmp.Or(now.State, StreamBroken)
	return &now
}

// receive stores what the stream has next, together with the place behind it. While there is no
// room, it waits, and the hub with it.
func (t *streamer) receive(ctx context.Context, h *hubStream, n *Notification) error {
	t.opened(h)
	if n.isEvent() {
		t.mu.Lock()
		t.now.LastEvent = time.Now()
		t.mu.Unlock()
	}
	at := place{Topic: h.topic, Hub: h.hub, Position: n.Position}
	here := func(tx *boltfile.Tx) error {
		at.Until = t.inbox.tail(tx).Until
		return tx.Bucket(metaBucket).PutJSON(placeKey, at)
	}
	if n.Gap != "" {
		return t.gap(n, here)
	}
	var until time.Time
	var was place
	if err := t.inbox.db.View(func(tx *boltfile.Tx) error {
		until, was = t.inbox.tail(tx).Until, readPlace(tx)
		return nil
	}); err != nil {
		return err
	}
	if !n.isEvent() {
		if was.Position == at.Position && was.Hub == at.Hub && was.Topic == at.Topic {
			return nil
		}
		return t.inbox.update(here)
	}
	b, err := examine(n.MediaType, n.Document, !until.IsZero())
	if err != nil {
		// The hub answers for it. If it is a notification, those behind it show the gap.
		t.inbox.count(func(c *Counts) { c.Refused["invalid"]++ })
		if _, ok := t.quiet.Line(time.Now(), "invalid"); ok {
			t.log.Warn("a notification was refused; more of the kind are only counted for a minute", "event", "refused", "reason", "invalid", "notification_id", n.ID, "error", err)
		}
		return t.inbox.update(here)
	}
	b.ID = n.ID
	for waits := false; ; waits = true {
		freed := t.inbox.freed.Wait()
		became, err := t.inbox.receive(ctx, t.log, b, n.Document, here)
		if err != nil || became != noRoom {
			return err
		}
		if !waits {
			t.inbox.count(func(c *Counts) { c.Postponed++ })
		}
		if !clock.Wait(ctx, roomRest, freed) {
			return ctx.Err()
		}
	}
}

// gap records that notifications do not come. Of changes, the lists have them. Nothing has content
// that is missing, so the application is informed. What was rolled back or reset was there, and no
// more is missing than before.
func (t *streamer) gap(n *Notification, here func(*boltfile.Tx) error) error {
	t.log.Warn("the hub lacks notifications", "event", "stream_gap", "topic", n.Topic, "from", n.From, "until", n.Until, "reason", n.Gap)
	lost := false
	err := t.inbox.update(func(tx *boltfile.Tx) error {
		lost = t.inbox.tail(tx).Until.IsZero() && n.Gap != gapRolledBack && n.Gap != gapReset
		if !lost {
			return here(tx)
		}
		now := time.Now()
		g := Gap{From: n.From, Until: n.Until, Why: GapTold, State: GapBaseline, FoundAt: now}
		b := batch{From: n.From, Until: n.Until, Baseline: true, Received: now}
		return errors.Join(putGap(tx, &g), t.inbox.append(tx, b, nil), here(tx))
	})
	if err != nil {
		return err
	}
	if lost {
		t.inbox.more.Broadcast()
	} else {
		t.repairer.catchUp(GapTold)
	}
	return nil
}
