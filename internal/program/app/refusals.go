package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

const (
	// refusalsEvery is how often refusals are stored, and refusalsFor how long they are
	// shown.
	refusalsEvery = time.Second
	refusalsFor   = 24 * time.Hour
	// maxWaiting is how many wait to be stored at most: the bursts of all groups.
	maxWaiting = int(groups) * allBurst
	// Of one requester and kind, eachBurst refusals are kept at once, and then one each
	// eachEvery. Of each group, allBurst at once, and then one each allEvery. All groups of a day
	// fit into journal.MaxNotes, so none pushes out the others.
	eachBurst, eachEvery = 5, time.Minute
	allBurst, allEvery   = 150, 3 * time.Minute
	// maxRequesters is how many requesters have a limit of their own.
	maxRequesters = 10_000
	// knownTimeout bounds the question to the store whether a topic is known.
	knownTimeout = time.Second
	// maxDetail bounds the sentence of a refusal, in bytes.
	maxDetail = 1000
)

// A group of refusals has limits of its own.
type group int

// The groups: by a stranger about a topic that nobody here knows; by a stranger about one that is
// known; and by a publisher with a right credential.
const (
	ofStrangers group = iota
	ofTopics
	ofPublishers
	groups
)

// refusals keeps what was refused, in the notebook of the store, so that each hub shows the
// refusals of all. It may be shared between goroutines.
type refusals struct {
	node  string
	store func() journal.Notebook // nil before the store is open
	log   *zap.Logger
	now   func() time.Time
	known func(admin.Refused) bool // its topic has subscribers, or notifications in the journal

	mu      sync.Mutex
	all     [groups]*rate.Limiter
	leftOut int // of all, since the last one that was kept
	each    *simplelru.LRU[string, *refusedOnes]
	waiting [][]byte // the oldest first
	storing [][]byte // those that are being stored
}

// refusedOnes are the refusals of one requester and kind.
type refusedOnes struct {
	limit   *rate.Limiter
	leftOut int // since the last one that was kept
}

func newRefusals(node string, store func() journal.Notebook, known func(admin.Refused) bool, log *zap.Logger) *refusals {
	each, _ := simplelru.NewLRU[string, *refusedOnes](maxRequesters, nil) // fails for a size below 1 only
	f := &refusals{node: node, store: store, known: known, log: log, now: time.Now, each: each}
	for i := range f.all {
		f.all[i] = rate.NewLimiter(rate.Every(allEvery), allBurst)
	}
	return f
}

// request adds a request that the hub refused.
func (f *refusals) request(e hub.Event) {
	if e.Err == nil {
		return
	}
	f.add(admin.Refused{
		Kind: e.Name, Problem: e.Outcome, Status: e.Status, Topic: e.Topic, Requester: e.Requester, Publisher: e.Publisher,
		Detail: e.Err.Error(), RequestID: e.RequestID,
	})
}

// subscription adds a request that came to nothing after the hub had accepted it. The notice of
// an end is no answer to a request.
func (f *refusals) subscription(e subscriptions.Event) {
	problem := ""
	switch {
	case e.Mode == websub.ModeDenied:
	case e.Name == subscriptions.EventDenied:
		problem = "denied"
	case e.Name == subscriptions.EventDropped && e.Status != 0: // that of the callback, which confirmed it
		problem = "no-subscription"
	case e.Name == subscriptions.EventDropped:
		problem = "not-verified"
	}
	if problem == "" {
		return
	}
	f.add(admin.Refused{
		Kind: cmp.Or(string(e.Mode), hub.EventSubscribe), Problem: problem, Topic: e.Topic, SubscriptionID: e.SubscriptionID.String(),
		CallbackHost: e.CallbackHost, Requester: e.Requester, Detail: e.Reason,
	})
}

func (f *refusals) add(r admin.Refused) {
	r.At, r.Node = f.now().UTC(), f.node
	r.Detail = excerpt.Cut(r.Detail, maxDetail)
	of := f.ones(r.Kind + " " + r.Problem + " " + r.Requester + " " + r.Publisher)
	allowed, in := of.limit.AllowN(r.At, 1), ofStrangers
	switch {
	case r.Publisher != "":
		in = ofPublishers
	case allowed && r.Topic != "" && f.known(r): // it may ask the store
		in = ofTopics
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !allowed || !f.all[in].AllowN(r.At, 1) || len(f.waiting) >= maxWaiting {
		of.leftOut++
		f.leftOut++
		return
	}
	r.LeftOut, of.leftOut = of.leftOut, 0
	r.LeftOutOfAll, f.leftOut = f.leftOut, 0
	text, err := json.Marshal(r)
	if err != nil {
		return // strings and numbers encode
	}
	f.waiting = append(f.waiting, text)
}

// ones returns the refusals of one requester and kind.
func (f *refusals) ones(key string) *refusedOnes {
	f.mu.Lock()
	defer f.mu.Unlock()
	of, ok := f.each.Get(key)
	if !ok {
		of = &refusedOnes{limit: rate.NewLimiter(rate.Every(eachEvery), eachBurst)}
		f.each.Add(key, of)
	}
	return of
}

// run stores refusals until ctx ends, and then those that still wait.
func (f *refusals) run(ctx context.Context) error {
	for failing, on := false, true; on; {
		on = clock.Sleep(ctx, refusalsEvery)
		err := f.flush(context.WithoutCancel(ctx))
		if err != nil && !failing {
			f.log.Warn("refusals could not be stored, so the operator's page misses some of them; it is tried again", zap.String("event", "refusals_failed"), zap.Error(err))
		}
		failing = err != nil
	}
	return nil
}

// flush stores those that wait. If that fails, they still wait.
func (f *refusals) flush(ctx context.Context) error {
	store := f.store()
	f.mu.Lock()
	if store != nil {
		f.storing, f.waiting = f.waiting, nil
	}
	texts := f.storing
	f.mu.Unlock()
	if len(texts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	err := store.Note(ctx, texts...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.storing = nil; err != nil {
		f.waiting = append(texts, f.waiting...)
		f.waiting = f.waiting[:min(len(f.waiting), maxWaiting)]
	}
	return err
}

// list returns the refusals of the last day by all hubs, the latest first.
func (f *refusals) list(ctx context.Context) (all []admin.Refused, err error) {
	f.mu.Lock()
	texts, leftOut := slices.Concat(f.storing, f.waiting), f.leftOut
	f.mu.Unlock()
	slices.Reverse(texts)
	if store := f.store(); store != nil {
		stored, err := store.Notes(ctx)
		if err != nil {
			return nil, err
		}
		texts = slices.DeleteFunc(texts, func(text []byte) bool { // they have been stored meanwhile
			return slices.ContainsFunc(stored, func(s []byte) bool { return bytes.Equal(s, text) })
		})
		texts = append(texts, stored...)
	}
	for _, text := range texts {
		var r admin.Refused
		if json.Unmarshal(text, &r) == nil && f.now().Sub(r.At) < refusalsFor { // another version may write other notes
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b admin.Refused) int { return b.At.Compare(a.At) })
	if len(all) > 0 {
		all[0].LeftOutOfAll += leftOut
	}
	return all, nil
}

// knowsTopic reports whether the topic of a refusal has subscribers, or notifications in the
// journal. It asks the store only where other hubs may have the subscribers, and not while the
// store may be what the refusal is about.
func (a *App) knowsTopic(r admin.Refused) bool {
	d, shards := a.dispatcher.Load(), a.shards.Load()
	if d == nil || shards == nil {
		return false
	}
	if d.Subscribers(r.Topic) > 0 {
		return true
	}
	if shards.keeper.Live() < 2 || r.Status >= http.StatusInternalServerError {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), knownTimeout)
	defer cancel()
	head, err := a.store.Head(ctx, r.Topic)
	return err == nil && head.Established()
}
