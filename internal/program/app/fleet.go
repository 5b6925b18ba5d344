package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/journal"
)

const (
	// summaryEvery is how often a hub sums up how it is, and summaryLife how long the
	// store keeps that for the other hubs.
	summaryEvery = 5 * time.Second
	summaryLife  = time.Minute
	// maxSummary bounds a summary in the store, in bytes, and maxEvent the text of each event
	// in it.
	maxSummary, maxEvent = 32 << 10, 1000
	// summaryTimeout bounds each exchange with the store about summaries.
	summaryTimeout = 2 * time.Second
	// worstOfAll is how many failing subscriptions, slow ones and events all hubs
	// together show.
	worstOfAll, eventsOfAll = 20, 100
)

// summary is what one hub reports to the others.
type summary struct {
	admin.HubNow
	FirstLoss *admin.Loss     `json:"first_loss,omitempty"`
	Worst     []admin.Laggard `json:"worst"` // those that have failed the longest
	Slowest   []admin.Laggard `json:"slowest"`
	Events    []admin.Event   `json:"events"`
	// FailingHosts are those at which the most subscriptions of this hub fail.
	FailingHosts []admin.FailingHost `json:"failing_hosts"`
	// Uses are what the publishers did, by their names; empty: without a credential.
	Uses map[string]admin.Use `json:"uses,omitempty"`
	// UsesLeftOut is how many publishers Uses had no room for.
	UsesLeftOut int `json:"uses_left_out,omitempty"`
}

// fleet sums up how this hub is every few seconds, shares that through the store, and
// reads what the other hubs shared. So a page about all hubs reads a few summaries and
// no subscriptions.
type fleet struct {
	app *App
	log *zap.Logger
	// passed is only for measure.
	passed hourly
	rates  atomic.Pointer[rates]
}

// rates are counts of deliveries at a time, what they grew by each second until then, and
// what was passed over in the hour before.
type rates struct {
	at                         time.Time
	delivered, failed          uint64
	passedOver                 uint64
	deliveredRate, failureRate float64
}

// run makes summaries until ctx ends.
func (f *fleet) run(ctx context.Context) error {
	for failing, on := false, true; on; on = clock.Sleep(ctx, summaryEvery) {
		f.measure()
		err := f.share(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			f.log.Warn("the store did not accept the summary of this hub, so the other hubs do not see its state; this hub tries again", zap.String("event", "summary_failed"), zap.Error(err))
		}
		failing = err != nil
	}
	return nil
}

// measure counts what was delivered since it did so last.
func (f *fleet) measure() {
	d := f.app.dispatcher.Load()
	if d == nil {
		return
	}
	st := d.Stats()
	now := &rates{at: time.Now(), delivered: st.Delivered, failed: st.Failed, passedOver: f.passed.grown(time.Now(), st.PassedOver)}
	if last := f.rates.Load(); last != nil && now.at.After(last.at) {
		passed := now.at.Sub(last.at).Seconds()
		now.deliveredRate, now.failureRate = float64(now.delivered-last.delivered)/passed, float64(now.failed-last.failed)/passed
	}
	f.rates.Store(now)
}

// hourly has what a count was in the last hour, once a minute, the oldest first.
type hourly []sample

// sample is a count at a time.
type sample struct {
	at    time.Time
	count uint64
}

// grown adds what a count is now, and returns by how much it grew in the last hour, to the
// minute. The count began at 0 with the first call.
func (h *hourly) grown(now time.Time, count uint64) uint64 {
	switch n := len(*h); {
	case n == 0:
		*h = hourly{{at: now}}
	case now.Sub((*h)[n-1].at) >= time.Minute:
		*h = append(*h, sample{now, count})
	}
	for len(*h) > 1 && now.Sub((*h)[1].at) >= time.Hour {
		*h = (*h)[1:]
	}
	return count - (*h)[0].count
}

// sumUp describes this hub. It reads nothing from the store but its readiness.
func (f *fleet) sumUp(ctx context.Context) *summary {
	a := f.app
	s := &summary{Events: a.recent.list(), Uses: a.publishes.list(), HubNow: admin.HubNow{Node: a.self(), AsOf: time.Now().UTC(), Draining: a.draining.Load(), Journal: a.usage.Load()}}
	s.UnreadableSubscriptions, s.UnreadableTopics = a.unreadable.subscriptions.Load(), a.unreadable.topics.Load()
	ctx, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	for _, c := range a.ready(ctx) {
		if c.Err != nil {
			s.NotReady = append(s.NotReady, fmt.Sprintf("%s: %v", c.Name, c.Err))
		}
	}
	if free, least, ok := a.backend.Space(); ok {
		s.Space = &admin.Space{Free: free, Least: least}
	}
	if service := a.service.Load(); service != nil {
		c := service.Counts()
		s.Pending, s.Ended = c.Pending, c.Ended
	}
	if h := a.history.Load(); h != nil {
		s.Streams = h.Stats().Open
	}
	d := a.dispatcher.Load()
	if d == nil {
		return s
	}
	st, lags := d.Stats(), d.LagReport()
	s.Active, s.Failing, s.Paused, s.LagSeconds = lags.Active, lags.Failing, lags.Paused, lags.Oldest.Seconds()
	s.UndeliveredSeconds = lags.Undelivered.Seconds()
	s.Topics, s.Hosts, s.Suspect, s.InFlight = st.Topics, st.Hosts, st.Suspects, st.InFlight
	if r := f.rates.Load(); r != nil {
		s.PassedOver = r.passedOver
		s.DeliveriesPerSecond, s.FailuresPerSecond = r.deliveredRate, r.failureRate
	}
	s.Worst, s.Slowest = laggards(lags.Failed[:]), laggards(lags.Slowest[:])
	s.FailingHosts = failingHosts(lags.Hosts[:])
	s.FirstLoss = f.firstLoss(s.Worst)
	return s
}

// nextLoss is when a subscription of this hub loses a notification next; zero: none fails.
func (f *fleet) nextLoss() time.Time {
	if d := f.app.dispatcher.Load(); d != nil {
		if lags := d.LagReport(); lags.Failed[0].Topic != "" {
			if loss := f.firstLoss(laggards(lags.Failed[:1])); loss != nil {
				return loss.At
			}
		}
	}
	return time.Time{}
}

// lossAfter is how long after its first attempt a notification is lost to a subscription
// that does not accept it, and the reason of the gap; 0: it is not lost.
func lossAfter(cfg *config.Config) (after time.Duration, reason string) {
	if age := cfg.RetentionAge; age > 0 && (cfg.GiveUp <= 0 || age < cfg.GiveUp) {
		return age, journal.GapRetention
	}
	return max(cfg.GiveUp, 0), journal.GapGaveUp
}

// firstLoss is when the subscription that has failed the longest loses a notification.
func (f *fleet) firstLoss(worst []admin.Laggard) *admin.Loss {
	if len(worst) == 0 || worst[0].FailingSince.IsZero() {
		return nil
	}
	after, reason := lossAfter(&f.app.cfg)
	if after == 0 {
		return nil
	}
	w := worst[0]
	return &admin.Loss{At: w.FailingSince.Add(after), Reason: reason, SubscriptionID: w.ID, Topic: w.Topic, Callback: w.Callback}
}

// laggards are those of a list that ends with an empty one.
func laggards(list []delivery.Laggard) []admin.Laggard {
	out := []admin.Laggard{}
	for _, l := range list {
		if l.Topic == "" {
			break
		}
		status, failure := admin.Outcome(l.Status)
		out = append(out, admin.Laggard{
			ID: l.ID.String(), Topic: l.Topic, Callback: l.Callback, Lag: admin.Lag{Notifications: l.Behind, Seconds: l.Span.Seconds()},
			FailingSince: l.Since.UTC(), Attempt: l.Attempt, NextAttemptAt: l.NextAt.UTC(), LastStatus: status, LastError: failure, Suspect: l.Suspect,
		})
	}
	return out
}

// failingHosts are those of a list that ends with an empty one. No name that DNS knows is cut.
func failingHosts(list []delivery.FailingHost) []admin.FailingHost {
	out := []admin.FailingHost{}
	for _, h := range list {
		if h.Name == "" {
			break
		}
		status, failure := admin.Outcome(h.Status)
		out = append(out, admin.FailingHost{Host: excerpt.Cut(h.Name, admin.MaxShown), Failing: h.Failing, FailingSince: h.Since.UTC(), LastStatus: status, LastError: failure, Suspect: h.Suspect})
	}
	return out
}

// joined adds up what hubs say of the same hosts, and puts those first at which the most
// subscriptions fail.
func joined(list []admin.FailingHost) []admin.FailingHost {
	all := []admin.FailingHost{}
	for _, h := range list {
		i := slices.IndexFunc(all, func(other admin.FailingHost) bool { return other.Host == h.Host })
		if i < 0 {
			all = append(all, h)
			continue
		}
		failing, suspect := all[i].Failing+h.Failing, all[i].Suspect || h.Suspect
		if h.FailingSince.Before(all[i].FailingSince) {
			all[i] = h
		}
		all[i].Failing, all[i].Suspect = failing, suspect
	}
	slices.SortStableFunc(all, func(a, b admin.FailingHost) int {
		return cmp.Or(cmp.Compare(b.Failing, a.Failing), a.FailingSince.Compare(b.FailingSince))
	})
	return all
}

// share stores the summary of this hub where the other hubs read it.
func (f *fleet) share(ctx context.Context) error {
	if f.app.backend.board == nil {
		return nil
	}
	s := f.sumUp(ctx)
	text, err := s.fit()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	return f.app.backend.board.Post(ctx, s.Run, text, summaryLife)
}

// fit returns the summary as JSON of at most maxSummary bytes. Strangers choose topics and
// callbacks, so it shortens the texts, and then cuts the longest list until all fit. So a list
// that strangers made long does not push out the others.
func (s *summary) fit() ([]byte, error) {
	cut := *s
	cut.NotReady = slices.Clone(s.NotReady)
	for i, why := range cut.NotReady {
		cut.NotReady[i] = excerpt.Cut(why, admin.MaxShown)
	}
	if s.FirstLoss != nil {
		loss := *s.FirstLoss
		loss.Topic, loss.Callback = excerpt.Cut(loss.Topic, admin.MaxShown), excerpt.Cut(loss.Callback, admin.MaxShown)
		cut.FirstLoss = &loss
	}
	cut.Events = slices.Clone(s.Events)
	for i := range cut.Events {
		cut.Events[i].Text = excerpt.Cut(cut.Events[i].Text, maxEvent)
	}
	cut.Worst, cut.Slowest = shortened(s.Worst), shortened(s.Slowest)
	for {
		text, err := encode(cut)
		if err != nil || len(text) <= maxSummary {
			return text, err
		}
		if err := cut.cutLongest(); err != nil {
			return nil, err
		}
	}
}

func shortened(list []admin.Laggard) []admin.Laggard {
	list = slices.Clone(list)
	for i := range list {
		list[i].Topic, list[i].Callback = excerpt.Cut(list[i].Topic, admin.MaxShown), excerpt.Cut(list[i].Callback, admin.MaxShown)
	}
	return list
}

// cutLongest drops the less important half of the list that has the most bytes.
func (s *summary) cutLongest() error {
	lists := []struct {
		list any
		cut  func()
	}{
		{s.Worst, func() { s.Worst = s.Worst[:len(s.Worst)/2] }},
		{s.Slowest, func() { s.Slowest = s.Slowest[:len(s.Slowest)/2] }},
		{s.FailingHosts, func() { s.FailingHosts = s.FailingHosts[:len(s.FailingHosts)/2] }},
		{s.Events, func() { s.Events = s.Events[(len(s.Events)+1)/2:] }},
		{s.NotReady, func() { s.NotReady = s.NotReady[:len(s.NotReady)/2] }},
		{s.Uses, s.cutUses},
	}
	longest, most := 0, 0
	for i, l := range lists {
		text, err := encode(l.list)
		if err != nil {
			return err
		}
		if len(text) > most {
			longest, most = i, len(text)
		}
	}
	if most <= len("null\n") {
		return fmt.Errorf("the summary of this hub has over %d bytes even without its lists", maxSummary)
	}
	lists[longest].cut()
	return nil
}

// cutUses keeps the uses of the publishers that published last.
func (s *summary) cutUses() {
	names := slices.SortedFunc(maps.Keys(s.Uses), func(a, b string) int { return s.Uses[b].LastAt.Compare(s.Uses[a].LastAt) })
	kept := make(map[string]admin.Use, len(names)/2)
	for _, name := range names[:len(names)/2] {
		kept[name] = s.Uses[name]
	}
	s.Uses, s.UsesLeftOut = kept, s.UsesLeftOut+len(names)-len(kept)
}

// encode is json.Marshal without its care for HTML, which makes six bytes of each "&".
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return text.Bytes(), err
}

// now answers GET /api/v1/now.
func (f *fleet) now(ctx context.Context) admin.Now {
	n := admin.Now{AsOf: time.Now().UTC(), Hubs: []admin.HubNow{}, Failing: []admin.Laggard{}, Slowest: []admin.Laggard{}, Events: []admin.Event{}, FailingHosts: []admin.FailingHost{}}
	n.UpgradePending = f.app.backend.upgradePending()
	all, err := f.others(ctx)
	if err != nil {
		n.HubsError = err.Error()
	}
	for _, s := range append(all, *f.sumUp(ctx)) {
		n.Hubs = append(n.Hubs, s.HubNow)
		n.Failing, n.Slowest, n.Events = append(n.Failing, s.Worst...), append(n.Slowest, s.Slowest...), append(n.Events, s.Events...)
		n.FailingHosts = append(n.FailingHosts, s.FailingHosts...)
		if s.FirstLoss != nil && (n.FirstLoss == nil || s.FirstLoss.At.Before(n.FirstLoss.At)) {
			n.FirstLoss = s.FirstLoss
		}
	}
	slices.SortFunc(n.Hubs, func(a, b admin.HubNow) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Run, b.Run)) })
	slices.SortFunc(n.Failing, func(a, b admin.Laggard) int { return a.FailingSince.Compare(b.FailingSince) })
	slices.SortFunc(n.Slowest, func(a, b admin.Laggard) int { return cmp.Compare(b.Lag.Seconds, a.Lag.Seconds) })
	slices.SortStableFunc(n.Events, func(a, b admin.Event) int { return b.At.Compare(a.At) })
	n.Failing, n.Slowest, n.Events = first(n.Failing, worstOfAll), first(n.Slowest, worstOfAll), first(n.Events, eventsOfAll)
	n.FailingHosts = first(joined(n.FailingHosts), worstOfAll)
	return n
}

func first[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// others are the summaries of the other live hubs. Of a hub that shared none it has the name
// alone, as of no time.
func (f *fleet) others(ctx context.Context) (all []summary, err error) {
	shards := f.app.shards.Load()
	if f.app.backend.board == nil || shards == nil {
		return nil, nil
	}
	silent := map[string]summary{} // by run
	for _, node := range shards.keeper.Nodes() {
		if node.ID != shards.self.ID {
			silent[node.ID] = summary{HubNow: admin.HubNow{Node: nodeOf(node)}}
		}
	}
	if len(silent) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	texts, err := f.app.backend.board.Posts(ctx, slices.Collect(maps.Keys(silent)))
	for _, text := range texts {
		var s summary
		if json.Unmarshal(text, &s) == nil { // one of another version may be something else
			all = append(all, s)
			delete(silent, s.Run)
		}
	}
	return slices.AppendSeq(all, maps.Values(silent)), err
}

// publishers answers GET /api/v1/publishers.
func (f *fleet) publishers(ctx context.Context) admin.Publishers {
	list, own := f.app.publishers.list(), f.app.publishes.list()
	all, err := f.others(ctx)
	for i, p := range list {
		list[i].Use = own[p.Name]
		for _, s := range all {
			list[i].Add(s.Uses[p.Name])
		}
	}
	var missing []string
	if err != nil {
		missing = append(missing, err.Error())
	}
	for _, s := range all {
		switch {
		case s.AsOf.IsZero():
			missing = append(missing, fmt.Sprintf("hub %s does not say what it counted", s.ID))
		case s.UsesLeftOut > 0:
			missing = append(missing, fmt.Sprintf("hub %s has no room for the counts of %d publishers", s.ID, s.UsesLeftOut))
		}
	}
	return admin.Publishers{Items: list, HubsError: strings.Join(missing, "; ")}
}

// self is this hub as the API has it.
func (a *App) self() admin.Node {
	n := nodeOf(a.node(""))
	n.SeenAt = time.Now().UTC()
	if s := a.shards.Load(); s != nil {
		n.Run, n.Shards = s.self.ID, s.keeper.Owned()
	}
	return n
}
