package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// A list is the same by pages of any size.
func samePages[T any](t *testing.T, list string, want int) []T {
	t.Helper()
	whole := decode[Page[T]](t, list+"limit=1000").Items
	if len(whole) != want {
		t.Fatalf("%s: %d items, want %d", list, len(whole), want)
	}
	for _, limit := range []int{1, 2, 3, 7, 100} {
		got := []T{}
		for url, pages := fmt.Sprintf("%slimit=%d", list, limit), 1; ; pages++ {
			p := decode[Page[T]](t, url)
			got = append(got, p.Items...)
			if p.Next == "" {
				if need := max((want+limit-1)/limit, 1); pages != need {
					t.Errorf("%s: %d pages of %d, want %d", list, pages, limit, need)
				}
				break
			}
			url = fmt.Sprintf("%slimit=%d&after=%s", list, limit, p.Next)
		}
		if d := cmp.Diff(whole, got); d != "" {
			t.Errorf("%s by %d:\n%s", list, limit, d)
		}
	}
	return whole
}

func TestNotifications(t *testing.T) {
	m := &memory{}
	entries := m.addEntries(theTopic, 30, 10)
	other := m.addEntries("https://example.org/other", 1, 0)
	m.addPing(journal.PingRecord{Topic: "https://example.org/pinged"})
	base := start(t, Options{Topics: m, Subscriptions: m, Pings: m}) + "/api/v1/topics/"
	list := base + journal.TopicID(theTopic).String() + "/notifications?"
	all := samePages[Notification](t, list, 20)
	for i, n := range all {
		e := entries[i]
		want := Notification{
			ID: e.ID.String(), From: e.From, Until: e.Until, Kind: "change", MediaType: "application/xml", Counts: journal.Counts{Created: 1, Updated: 2, Deleted: e.Counts.Deleted},
			Bytes: e.Size, SHA256: fmt.Sprintf("%02x%062d", i+10, 0), Seq: e.Seq, Position: fmt.Sprintf("%016x", uint64(e.Position)), ReceivedAt: e.ReceivedAt,
		}
		if d := cmp.Diff(want, n); d != "" {
			t.Fatal(d)
		}
	}
	for since, want := range map[string]int{
		"2026-11-21T12:25:00Z": 5, "2026-11-21T12:24:59.5Z": 6, "2026-11-21T13:25%2B01:00": 5, "2026-11-21T12:30:00Z": 0, "2000-01-01T00:00:00Z": 20,
	} {
		samePages[Notification](t, list+"since="+since+"&", want)
	}
	for at, want := range map[string]int{ // the last item before it, or the one that it is in
		all[0].From.Format(time.RFC3339): 0, all[3].From.Add(time.Second).Format(time.RFC3339): 3, all[3].Until.Format(time.RFC3339): 3, all[19].Until.Format(time.RFC3339): 19,
		all[0].From.Add(-1).Format(time.RFC3339Nano): -1, all[19].Until.Add(1).Format(time.RFC3339Nano): -1, "1600-01-01T00:00:00Z": -1, "2600-01-01T00:00:00Z": -1,
	} {
		if p := decode[Page[Notification]](t, list+"at="+at); len(p.Items) != min(1, want+1) || want >= 0 && p.Items[0].ID != all[want].ID {
			t.Errorf("at %s there is %+v, want number %d", at, p.Items, want)
		}
	}
	samePages[Notification](t, base+journal.TopicID("https://example.org/pinged").String()+"/notifications?", 0)
	samePages[Notification](t, base+journal.TopicID("https://example.org/pinged").String()+"/notifications?at=2026-11-21T12:25:00Z&", 0)

	newest := samePages[Notification](t, list+"order=newest&", 20)
	slices.Reverse(newest)
	if d := cmp.Diff(all, newest); d != "" {
		t.Errorf("the newest first:\n%s", d)
	}
	samePages[Notification](t, base+journal.TopicID("https://example.org/pinged").String()+"/notifications?order=newest&", 0)

	// The next page continues where the last one ended, even if retention has trimmed that entry.
	trimmed, _ := journal.NewID(noon, journal.Partition(journal.TopicID(theTopic)))
	if p := decode[Page[Notification]](t, list+"after="+trimmed.String()); len(p.Items) != 20 {
		t.Errorf("after one that was trimmed: %d", len(p.Items))
	}
	if p := decode[Page[Notification]](t, list+"order=newest&after="+trimmed.String()); len(p.Items) != 0 {
		t.Errorf("before one that was trimmed: %d", len(p.Items))
	}
	elsewhere := uuid.Max
	elsewhere[15] = trimmed[15] + 1
	for query, word := range map[string]string{
		"after=" + other[0].ID.String(): "next", "after=" + elsewhere.String(): "next", "after=x": "next", "since=": "zone", "since=2026-11-21": "zone",
		"since=2026-11-21T13:25+01:00": "%2B", "limit=0": "1 to 1000", "at=": "zone", "at=2026-11-21T12:25:00Z&since=2026-11-21T12:25:00Z": "not both", "order=newest&at=2026-11-21T12:25:00Z": "order=oldest",
		"order=odd": "neither", "order=newest&since=2026-11-21T12:25:00Z": "order=oldest", "order=newest&after=" + other[0].ID.String(): "next",
	} {
		resp, body := send(t, http.MethodGet, list+query)
		wantProblem(t, resp, body, 400, word)
	}
}

func TestAttempts(t *testing.T) {
	l := newTabled(Options{})
	id := uuid.New()
	for i := range 12 { // three at each time
		l.m.attempts = append(l.m.attempts, subscriptions.Attempt{At: noon.Add(time.Duration(i/3) * time.Hour), NotificationID: id, Number: uint32(i + 1), Status: 500, Duration: 1500 * time.Millisecond})
	}
	l.m.attempts[1].Status, l.m.attempts[1].Error = journal.StatusTimeout, "the callback made no progress for 15s"
	l.m.attempts[2].Status = journal.StatusConnect
	l.m.attempts[11].Status = 204
	list := start(t, Options{Topics: l.m, Subscriptions: l.m}) + "/api/v1/subscriptions/" + l.subscription + "/attempts?"
	all := samePages[Attempt](t, list, 12)
	want := Attempt{At: noon, NotificationID: id.String(), Attempt: 1, Status: 500, Duration: 1.5}
	if d := cmp.Diff(want, all[0]); d != "" {
		t.Error(d)
	}
	if all[1].Status != 0 || all[1].Error != "the callback made no progress for 15s" || all[2].Status != 0 || all[2].Error != "connect" || all[11].Status != 204 {
		t.Errorf("%+v", all)
	}
	// Newer ones come while a page is read: the oldest fall out of the list, and
	// none comes twice.
	first := decode[Page[Attempt]](t, list+"limit=5")
	l.m.attempts = l.m.attempts[7:]
	for next, want := range map[string]uint32{first.Next: 8, decode[Page[Attempt]](t, list+"limit=1").Next: 9} {
		if got := decode[Page[Attempt]](t, list+"after="+next).Items[0].Attempt; got != want {
			t.Errorf("after %s: %d, want %d", next, got, want)
		}
	}
	l.m.attempts = nil
	if p := decode[Page[Attempt]](t, list+"after="+first.Next); len(p.Items) != 0 || p.Items == nil {
		t.Errorf("after the last: %+v", p)
	}
	for _, after := range []string{"x", "1", "1.", ".1", "1.x", "x.1", "1.-1", uuid.Nil.String()} {
		resp, body := send(t, http.MethodGet, list+"after="+after)
		wantProblem(t, resp, body, 400, "next")
	}
}

// Invariant 10: the gaps of a subscription come with those of its topic.
func TestGaps_Invariant10(t *testing.T) {
	m := &memory{}
	const callback = "https://s.example/gaps"
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	s := &subscriptions.Subscription{
		ID: subscriptions.ID(theTopic, callback), Topic: theTopic, Callback: callback, ExpiresAt: noon.Add(time.Hour),
		Start: journal.Anchor{Position: 5},
		Gaps:  []journal.Gap{{From: at(6), Until: at(8), Count: 2, Reason: "retention", At: at(9)}, {Until: at(20), Reason: "gave_up", At: at(20)}},
	}
	m.addRecord(subscriptions.Record{Subscription: s})
	m.addTopic(journal.Head{Topic: theTopic, Version: "1", Gaps: []journal.Gap{
		{Reason: "source", At: at(1), Position: 4}, {Reason: "reset", At: at(10), Position: 5}, {Reason: "source", At: at(20), Position: 9},
	}})
	q := &subscriptions.Request{Mode: "subscribe", Topic: theTopic, Callback: "https://s.example/cb"}
	m.addRecord(subscriptions.Record{Request: q})
	base := start(t, Options{Topics: m, Subscriptions: m}) + "/api/v1/subscriptions/"
	all := samePages[Gap](t, base+s.ID.String()+"/gaps?", 4)
	want := []Gap{
		{From: at(6), Until: at(8), Count: 2, Reason: "retention", At: at(9)},
		{Reason: "reset", At: at(10)},
		{Until: at(20), Reason: "gave_up", At: at(20)},
		{Reason: "source", At: at(20)},
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Error(d)
	}
	samePages[Gap](t, base+q.SubscriptionID().String()+"/gaps?", 0)
}

// Topics that were published to and topics that were pinged are one list.
func TestTopicsWithPingRecords(t *testing.T) {
	m := &memory{}
	published, pinged := 0, 0
	for i := range 3000 {
		topic := fmt.Sprintf("https://example.org/%d", i)
		if i%3 != 1 {
			published++
			m.addTopic(journal.Head{Topic: topic, Version: "1", Kind: journal.KindChange, Last: journal.Anchor{Seq: 1}, ReceivedAt: noon})
		}
		if i%3 != 0 {
			pinged++
			m.addPing(journal.PingRecord{Topic: topic, Pings: 3, Fetched: uint64(1 + i%3), PingedAt: noon, Tries: 2, NextAt: noon.Add(time.Minute), Last: journal.Fetch{At: noon, Outcome: "gap", Detail: "No.", Status: 200}})
		}
	}
	base := start(t, Options{Topics: m, Subscriptions: m, Pings: m}) + "/api/v1/topics"
	for _, limit := range []string{"7", "100", "1000"} {
		seen, pages := collect(t, base+"?limit="+limit, func(v Topic) string { return v.URL })
		withFetch, withKind := 0, 0
		for _, v := range seen {
			if v.Fetch != nil {
				withFetch++
			}
			if v.Kind != "" {
				withKind++
			}
		}
		if len(seen) != 3000 || withFetch != pinged || withKind != published {
			t.Errorf("by %s: %d topics in %d pages, %d with a fetch of %d, %d with a kind of %d", limit, len(seen), pages, withFetch, pinged, withKind, published)
		}
		for url, v := range seen {
			if limit != "7" {
				break
			}
			if d := cmp.Diff(v, decode[Topic](t, base+"/"+v.ID)); d != "" {
				t.Fatalf("%s alone:\n%s", url, d)
			}
		}
	}
	only := decode[Topic](t, base+"/"+journal.TopicID("https://example.org/1").String())
	want := Topic{
		ID: journal.TopicID("https://example.org/1").String(), URL: "https://example.org/1", Gaps: []Gap{},
		Fetch: &Fetch{PingedAt: noon, Waiting: true, Tries: 2, NextAttemptAt: noon.Add(time.Minute), At: noon, Outcome: "gap", Detail: "No.", Status: 200},
	}
	if d := cmp.Diff(want, only); d != "" {
		t.Errorf("only pinged:\n%s", d)
	}
	if _, body := send(t, http.MethodGet, base+"/"+only.ID); strings.Contains(body, "0001-01-01") || strings.Contains(body, uuid.Nil.String()) {
		t.Errorf("only pinged: %s", body)
	}
	if both := decode[Topic](t, base+"/"+journal.TopicID("https://example.org/2").String()); both.Kind != "change" || both.Fetch == nil || both.Fetch.Waiting {
		t.Errorf("both: %+v", both)
	}
}
