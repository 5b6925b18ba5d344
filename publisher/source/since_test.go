package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

func sinceURL(at time.Time) string {
	return "/changes/?since=" + url.QueryEscape(resourcesync.FormatDatetime(at))
}

// since reads all that an answer has, its parts included.
func (x *site) since(at time.Time) (all []resourcesync.Entry) {
	x.t.Helper()
	h, entries := x.read(sinceURL(at))
	if up, _ := h.Link("up"); h.Capability != resourcesync.ChangeList || !h.From.Equal(at) || !h.Until.IsZero() || up.Href != x.o.PublicURL+capabilityListPath {
		x.t.Errorf("since %v: %+v", at, h)
	}
	if !h.Index {
		return within(x.t, "since", h, entries)
	}
	until := at
	for i, e := range entries {
		part, of := x.read(e.Loc)
		if !part.From.Equal(until) || !part.From.Equal(e.From) || !part.Until.Equal(e.Until) || part.Index || part.Until.IsZero() != (i == len(entries)-1) {
			x.t.Errorf("part %d of %d: %+v is listed as %+v", i, len(entries), part, e)
		}
		all, until = append(all, within(x.t, e.Loc, part, of)...), part.Until
	}
	return all
}

// Whatever changed and since whenever a reader asks, it gets each change since then, once and in order
// (MEM-01). It asks again from where the answer ended.
func TestSince_MEM01(t *testing.T) {
	x := newSite(t, withHub)
	if got := x.get(sinceURL(time.Now())); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("before the first scan: %d", got.status)
	}
	x.build()
	x.sets[0].composer.limits = resourcesync.WriteOptions{MaxEntries: 7}
	random := rand.New(rand.NewPCG(1, 1))
	_, begin := snapshotOf(t, x).Begin()
	asked, got := begin, []resourcesync.Entry(nil)
	for turn := range 12 {
		x.churn(random, random.IntN(9), time.Now())
		want := x.log(0)
		if len(want) == 0 {
			continue
		}
		for _, at := range []time.Time{begin, want[random.IntN(len(want))].At, want[len(want)-1].At.Add(time.Microsecond)} {
			first := slices.IndexFunc(want, func(c Change) bool { return !c.At.Before(at) })
			if first < 0 {
				first = len(want)
			}
			matches(t, fmt.Sprint("turn ", turn, " since ", at), x.since(at), want[first:])
		}
		got = append(got, x.since(asked)...)
		end, err := resourcesync.ParseDatetime(x.get(sinceURL(asked)).header.Get(headerUntil))
		if err != nil {
			t.Fatal(err)
		}
		matches(t, "one after the other", got, want)
		asked = end
	}
	if len(got) < 20 {
		t.Errorf("there were only %d changes", len(got))
	}
	if left := names(t, x.sets[0].shelf.dir); slices.ContainsFunc(left, func(n string) bool { return strings.HasPrefix(n, "answer") }) {
		t.Errorf("%q", left)
	}
	if said, err := xmllint(t, []byte(x.get(sinceURL(begin)).body)); err != nil {
		t.Error(said)
	}
	var out bytes.Buffer
	cmd := cli.Validate()
	cmd.SetArgs([]string{"--dev", "--follow", "--strict", "--pause", "0s", x.o.PublicURL + sinceURL(begin)[1:]})
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "changelist index") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func snapshotOf(t *testing.T, x *site) *Snapshot {
	t.Helper()
	s, err := x.sets[0].index.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func matches(t *testing.T, what string, got []resourcesync.Entry, want []Change) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d changes, want %d", what, len(got), len(want))
	}
	for i, c := range want {
		if e := got[i]; !e.Datetime.Equal(c.At) || e.Change != c.Change || !strings.HasSuffix(e.Loc, "/data/"+c.Resource.Path) {
			t.Fatalf("%s: change %d is %+v, want %+v", what, i, e, c)
		}
	}
}

// prunes is a log whose first line prunes the log of changes of an index.
type prunes struct {
	slog.Handler
	first func()
}

func (p prunes) Handle(context.Context, slog.Record) error { p.first(); return nil }

// What is pruned while an answer is written is gone for the reader, and nothing failed.
func TestPrunedMeanwhile_MEM01(t *testing.T) {
	x := newSite(t, withHub)
	x.build()
	s := x.sets[0]
	_, begin := snapshotOf(t, x).Begin()
	for open := range s.index.open {
		open.Close() // nothing is pruned while one is open
	}
	var steps []step
	for i := range pageSize + 1 {
		path := fmt.Sprint(i)
		if i == 0 {
			path = strings.Repeat("x", longestURL) // which no document can have, as the log says
		}
		steps = append(steps, step{key: path, now: &record{Resource: Resource{Path: path, Length: 1}}})
	}
	if _, err := s.index.apply(time.Now(), steps); err != nil {
		t.Fatal(err)
	}
	pruned := 0
	s.composer.log = slog.New(prunes{slog.NewTextHandler(io.Discard, nil), sync.OnceFunc(func() {
		var err error
		if pruned, err = s.index.Prune(Cut{Before: time.Now().Add(time.Hour), Through: math.MaxUint64}); err != nil {
			t.Error(err)
		}
	})})
	if got := x.get(sinceURL(begin.Add(time.Microsecond))); got.status != http.StatusGone || pruned != len(steps) {
		t.Errorf("%d %.200s after %d were pruned", got.status, got.body, pruned)
	}
}

// A list with more bytes than a list may have ends before that, and leads on.
func TestSinceIsBoundedInBytes_MEM01(t *testing.T) {
	x := newSite(t, withHub)
	x.build()
	x.sets[0].composer.limits = resourcesync.WriteOptions{MaxBytes: 2000}
	for i := range 3 {
		x.churn(rand.New(rand.NewPCG(2, uint64(i))), 9, time.Now())
	}
	_, at := snapshotOf(t, x).Begin()
	var all []resourcesync.Entry
	lists := 0
	for path := sinceURL(at); path != ""; lists++ {
		got := x.get(path)
		h, entries := readDocument(t, path, got.body)
		all = append(all, within(t, path, h, entries)...)
		next := websub.Targets(websub.ParseLinks(got.header.Values("Link")), "next")
		if h.Until.IsZero() != (len(next) == 0) || !h.From.Equal(at) || !h.Until.IsZero() && got.header.Get(headerUntil) != resourcesync.FormatDatetime(h.Until) {
			t.Fatalf("%+v, and leads on to %q", h, next)
		}
		at, path = h.Until, strings.Join(next, "")
	}
	if matches(t, "short lists", all, x.log(0)); lists < 3 {
		t.Errorf("there are %d lists", lists)
	}
}

// What a Source answers says what is wrong, and is cached as its documents are.
func TestSinceAnswers_MEM01(t *testing.T) {
	x := newSite(t, withHub)
	x.build()
	s, begin := x.sets[0], time.Time{}
	x.churn(rand.New(rand.NewPCG(3, 1)), 20, time.Now())
	all := x.log(0)
	if _, err := s.index.Prune(Cut{Before: time.Now().Add(time.Hour), Through: all[3].Seq}); err != nil {
		t.Fatal(err)
	}
	_, begin = snapshotOf(t, x).Begin()
	if !begin.Equal(all[3].At) {
		t.Fatalf("the log begins at %v", begin)
	}
	const day = "2026-01-31T12:00:00Z"
	for path, want := range map[string]struct {
		status int
		member string
	}{
		"/changes/?since=yesterday":                         {400, ""},
		"/changes/?since=":                                  {400, ""},
		"/changes/?since=" + day + "&since=" + day:          {400, ""},
		"/changes/?since=" + day + "&until=" + day:          {400, ""},
		"/changes/?since=2026-01-31T12:00:00+01:00":         {400, ""},
		"/changes/?since=" + day + ";until=" + day:          {400, ""},
		"/changes/?until=%zz&since=" + day:                  {400, ""},
		"/framework/?since=" + day:                          {404, ""},
		"/changes/x?since=" + day:                           {404, "text"},
		sinceURL(begin):                                     {410, `"earliest":"` + resourcesync.FormatDatetime(begin.Add(time.Microsecond)) + `"`},
		"/changes/?since=0001-01-01T00:00:00Z":              {410, `"earliest"`},
		"/changes/?since=9999-12-31T23:59:59Z":              {409, `"until"`},
		sinceURL(all[5].At) + "&until=9999-01-01T00:00:00Z": {409, `"until"`},
	} {
		got := x.get(path, "Accept", "application/problem+json, application/xml;q=0.5")
		if got.status != want.status || !strings.Contains(got.body, want.member) && want.member != "text" {
			t.Errorf("%s: %d %s, want %d with %s", path, got.status, got.body, want.status, want.member)
		}
		if want.member == "text" {
			continue
		}
		var p struct{ Type, Detail string }
		if err := json.Unmarshal([]byte(got.body), &p); err != nil || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Cache-Control") != "no-store" || got.header.Get(headerUntil) != "" {
			t.Errorf("%s: %v %v", path, err, got.header)
		}
		if text := x.get(path); text.status != want.status || text.body != p.Detail+"\n" && want.status != http.StatusConflict { // which has the time of day
			t.Errorf("%s: %q", path, text.body)
		}
		if known, err := os.ReadFile("../../docs/problems.md"); err != nil || !strings.Contains(string(known), "\n### "+p.Type[strings.Index(p.Type, "#")+1:]+"\n") {
			t.Errorf("%s is not in docs/problems.md: %v", p.Type, err)
		}
	}
	if got := x.get(sinceURL(all[5].At), "Accept", "text/html"); got.status != http.StatusNotAcceptable {
		t.Errorf("Accept: text/html: %d", got.status)
	}
	if got := x.do(http.MethodPost, sinceURL(all[5].At)); got.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", got.status)
	}
	path := sinceURL(all[5].At)
	plain, packed := x.get(path), x.get(path, "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(packed.body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != plain.body || packed.header.Get("ETag") == plain.header.Get("ETag") {
		t.Errorf("gzip: %v %v", err, packed.header)
	}
	for tag, status := range map[string]int{plain.header.Get("ETag"): http.StatusNotModified, packed.header.Get("ETag"): http.StatusOK} {
		if got := x.get(path, "If-None-Match", tag); got.status != status {
			t.Errorf("If-None-Match %s: %d", tag, got.status)
		}
	}
	if got := x.do(http.MethodHead, path); got.status != http.StatusOK || got.body != "" || got.header.Get("Content-Length") != fmt.Sprint(len(plain.body)) || got.header.Get("ETag") != plain.header.Get("ETag") {
		t.Errorf("HEAD: %d %v", got.status, got.header)
	}
	// The topic itself is as it was.
	if got := x.get("/changes/"); got.status != http.StatusOK || !strings.Contains(got.header.Get("Link"), `rel="hub"`) || got.header.Get(headerUntil) != "" {
		t.Errorf("the topic: %d %v", got.status, got.header)
	}
}

// A Source without a hub answers, too. Its topics are not there: there is nothing to read without the question.
func TestSinceWithoutAHub_MEM01(t *testing.T) {
	x := newSite(t, nil)
	x.build()
	_, begin := snapshotOf(t, x).Begin()
	x.write(map[string]string{"a": "1"})
	x.build()
	if got := x.since(begin); len(got) != 1 || got[0].Loc != x.o.PublicURL+"data/a" {
		t.Errorf("it answers %+v", got)
	}
	for _, path := range []string{"/changes/", "/framework/", "/framework/?since=2020-01-01T00:00:00Z", "/changes/x?since=2020-01-01T00:00:00Z"} {
		if got := x.get(path); got.status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, got.status)
		}
	}
}
