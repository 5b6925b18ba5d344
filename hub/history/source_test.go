package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// inlet is how a Source publishes into the journal of a world.
type inlet struct {
	*world
	mu sync.Mutex
}

// Do appends a notification, as the stages of a hub do.
func (in *inlet) Do(r *http.Request) (*http.Response, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	n, err := resourcesync.CheckNotification(bytes.NewReader(body), resourcesync.Limits{})
	if err != nil {
		return nil, err
	}
	self := websub.Targets(websub.ParseLinks(r.Header.Values("Link")), websub.RelSelf)[0]
	head, err := in.store.Head(r.Context(), self)
	if err != nil {
		return nil, err
	}
	e := journal.Entry{
		From: n.From, Until: n.Until, MediaType: "application/xml", Body: body, Kind: journal.KindFramework,
		Counts: journal.Counts{Created: n.Counts.Created, Updated: n.Counts.Updated, Deleted: n.Counts.Deleted},
	}
	if n.Capability == resourcesync.ChangeNotification {
		e.Kind = journal.KindChange
	}
	if d := validate.Continuity(head, nil, e, false); d.Result != validate.Append {
		return nil, fmt.Errorf("%v to %v after %v", n.From, n.Until, head.Until)
	}
	if _, err = in.store.Append(r.Context(), time.Now(), self, e, head.Version); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	_, _ = rec.WriteString(`{"id":"x"}`)
	return rec.Result(), nil
}

// change is what a reader has to learn of a change.
type change struct {
	loc  string
	what resourcesync.ChangeType
	at   time.Time
}

// changesIn reads the changes of a document, and its head.
func changesIn(body io.Reader) (h resourcesync.Head, all []change, err error) {
	r := resourcesync.NewReader(body, resourcesync.ReadOptions{Strict: true})
	for e, err := range r.Entries() {
		if err != nil {
			return h, nil, err
		}
		all = append(all, change{e.Loc, e.Change, e.Datetime})
	}
	h, err = r.Head()
	return h, all, err
}

// The changes since an instant are those that the Source's own Change List has, by the hub and by the
// Source itself, whatever the history was: the same addresses, types of change and times, in order.
func TestChangesSinceAreThoseOfTheSource_MEM01(t *testing.T) {
	in := &inlet{world: newWorld(t)}
	s, err := source.Open(source.Options{
		PublicURL: "https://example.org/", StateDir: t.TempDir(), Sets: []source.Set{{Announced: true}}, Client: in,
		Hubs: []publisher.Hub{{URL: "https://hub.example/"}}, Every: time.Nanosecond, Schedule: source.Schedule{ChangeList: time.Nanosecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	}()
	own := func(path string) (resourcesync.Head, []change, error) {
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "https://example.org/"+path, nil))
		if rec.Code != http.StatusOK {
			return resourcesync.Head{}, nil, fmt.Errorf("%s answers %d %s", path, rec.Code, rec.Body)
		}
		return changesIn(rec.Body)
	}
	since := func(at time.Time) string { return "changes/?since=" + url.QueryEscape(resourcesync.FormatDatetime(at)) }
	begin, published, checks := time.Now(), 0, 0
	var list []change // all that the Source has
	rapid.Check(t, func(rt *rapid.T) {
		if checks++; checks > 12 {
			return // they are slow, and the history of all of them is one
		}
		for range rapid.IntRange(1, 3).Draw(rt, "notifications") {
			var given []source.Given
			for range rapid.IntRange(1, 6).Draw(rt, "changes") {
				given = append(given, source.Given{
					Change:   rapid.SampledFrom(resourcesync.ChangeTypes()).Draw(rt, "change"),
					Resource: source.Resource{URL: fmt.Sprintf("https://example.org/r/%d?a&b", rapid.IntRange(0, 4).Draw(rt, "resource")), Length: source.UnknownLength},
				})
			}
			if _, err := s.Announce("", source.Announcement{Changes: given}); err != nil {
				rt.Fatal(err)
			}
			if err := s.Flush(ctx); err != nil {
				rt.Fatal(err)
			}
			published += len(given)
		}
		if _, list, err = own(since(begin)); err != nil || len(list) != published {
			rt.Fatalf("the Source has %d changes of %d: %v", len(list), published, err)
		}
		// Before, at, or after a change, down to the precision of the times of a hub.
		at := list[rapid.IntRange(0, len(list)-1).Draw(rt, "since")].at.Add(time.Duration(rapid.IntRange(-1, 2).Draw(rt, "later")))
		rec, err := in.get(in.url(topic, paramSince, resourcesync.FormatDatetime(at))) //nolint:contextcheck // it is that of the test
		var early *TrimmedError
		var future *FutureError
		if errors.As(err, &early) && !at.After(list[0].at) || errors.As(err, &future) && at.After(future.Until) && at.After(list[len(list)-1].at) {
			return // outside of the journal
		}
		if err != nil {
			rt.Fatal(err)
		}
		h, got, err := changesIn(rec.Body)
		if err != nil || h.From.After(at) || !h.Until.IsZero() {
			rt.Fatalf("%+v since %v: %v", h, at, err)
		}
		// A hub answers with whole notifications, so from their beginning on.
		want := slices.DeleteFunc(slices.Clone(list), func(c change) bool { return c.at.Before(h.From) })
		if !slices.Equal(got, want) {
			rt.Fatalf("since %v the hub has %v\nthe Source has %v", at, got, want)
		}
		if h, got, err = own(since(at)); err != nil || !h.From.Equal(at) || !h.Until.IsZero() {
			rt.Fatalf("%+v since %v: %v", h, at, err)
		}
		want = slices.DeleteFunc(slices.Clone(list), func(c change) bool { return c.at.Before(at) })
		if !slices.Equal(got, want) {
			rt.Fatalf("since %v the Source has %v\nof these it has %v", at, got, want)
		}
	})
	var all []change
	for end := time.Now().Add(time.Minute); len(all) < published && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, all, err = own("changelist.xml"); err != nil && !strings.Contains(err.Error(), "503") {
			t.Fatal(err)
		}
	}
	if !slices.Equal(all, list) {
		t.Errorf("the Change List has %v\nsince the beginning there is %v", all, list)
	}
}
