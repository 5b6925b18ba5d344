package ui

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/journal"
)

// XML is shown with an element on each line; nothing of it is lost, and what is no XML is
// shown as it is.
func TestDocumentsAreReadable(t *testing.T) {
	for document, want := range map[string]string{
		"": "",
		`<?xml version="1.0"?><a xmlns:x="u"><x:b c="1 &lt; 2"/><d>text <e>more</e></d></a>`: "<?xml version=\"1.0\"?>\n<a xmlns:x=\"u\">\n  <x:b c=\"1 &lt; 2\"/>\n  <d>text\n    <e>more</e>\n  </d>\n</a>",
		"<a>\n  <b></b>\n</a>\n":      "<a>\n  <b></b>\n</a>",
		"<a><!-- x --><b>":            "<a>\n  <!-- x -->\n  <b>",
		"<a><b c=":                    "<a>\n  <b c=",
		"{\"json\": [1]}":             "{\"json\": [1]}",
		"\x00\xff\u202e<a/>":          "\ufffd\ufffd\ufffd<a/>",
		"<a><![CDATA[<script>]]></a>": "<a><![CDATA[<script>]]></a>",
	} {
		if got, cut := readable([]byte(document)); got != want || cut {
			t.Errorf("%q:\n%s\nwant\n%s", document, got, want)
		}
	}
	long := "<a>" + strings.Repeat("<b/>", maxDocument) + "</a>"
	if got, cut := readable([]byte(long)); !cut || len(got) > 3*maxDocument {
		t.Errorf("%d bytes, cut %v", len(got), cut)
	}
}

func FuzzDocument(f *testing.F) {
	for _, s := range []string{"<a><b/></a>", "<a", "</a></a>", "<a>x</a>", "\xff<a>\x00", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		space := func(r rune) rune {
			if strings.ContainsRune(" \t\r\n", r) {
				return -1
			}
			return r
		}
		got, _ := readable(document)
		if want := admin.Readable(document); strings.Map(space, got) != strings.Map(space, want) {
			t.Errorf("%q became %q", document, got)
		}
	})
}

// The picture of a topic has its intervals, what was lost and by whom, and where the slowest
// subscription is; all of it within the drawing.
func TestTimeline(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	list := []admin.Notification{{From: at(0), Until: at(10)}, {From: at(20), Until: at(30)}, {From: at(40), Until: at(100)}}
	gaps := []admin.Gap{{From: at(10), Until: at(20), Reason: journal.GapSource}, {From: at(30), Until: at(40), Reason: journal.GapRolledBack}, {Until: at(5)}}
	slow := &admin.Laggard{Callback: "https://s.example/cb?token=secret", Lag: admin.Lag{Notifications: 2, Seconds: 75 * 60}}
	tl := newTimeline(list, gaps, slow, at(100))
	classes := ""
	for _, b := range tl.Bars {
		classes += b.Class + " "
		if b.X < 0 || b.X+b.Width > timelineWidth || b.Width < leastBar {
			t.Errorf("a bar leaves the drawing: %+v", b)
		}
	}
	if classes != "accepted accepted accepted gap rewind slowest " || tl.Bars[5].X != 250 {
		t.Errorf("%s%+v", classes, tl.Bars)
	}
	if tl.Says != "s.example/cb is the furthest behind: by 2 notifications, 1h15m." {
		t.Error(tl.Says)
	}
	slow.Lag.Seconds = 1e6
	if tl = newTimeline(list, nil, slow, at(100)); len(tl.Bars) != 3 || tl.Says == "" {
		t.Errorf("one that is before the drawing: %+v", tl.Bars)
	}
	if tl = newTimeline([]admin.Notification{{ReceivedAt: at(1)}}, nil, nil, at(1)); len(tl.Bars) != 0 {
		t.Errorf("of what has no interval: %+v", tl.Bars)
	}
}

// Where counting takes long, the page of a notification shows everything else, and counts
// when it is asked to.
func TestNotificationIsShownBeforeItIsCounted(t *testing.T) {
	slow := true
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/document"):
			_, _ = io.WriteString(w, "<a/>")
		case strings.HasSuffix(r.URL.Path, "/subscriptions"):
			_, _ = io.WriteString(w, `{"items":[{"id":"i","callback":"https://waits.example/"}]}`)
		case r.URL.Query().Get("count") == "false":
			_, _ = io.WriteString(w, `{"id":"n","topic":"https://example.org/t"}`)
		case slow:
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, `{"id":"n","topic":"https://example.org/t","pending":7,"as_of":"2026-01-01T00:00:00Z"}`)
		}
	})
	page := func(path string) string {
		w := httptest.NewRecorder()
		New(api).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
		return w.Body.String()
	}
	if got := page("/ui/notifications/n"); !strings.Contains(got, "count who got it") || !strings.Contains(got, "https://example.org/t") || !strings.Contains(got, "&lt;a/&gt;") {
		t.Error(got)
	}
	slow = false
	for _, path := range []string{"/ui/notifications/n", "/ui/notifications/n?count=yes"} {
		if got := page(path); strings.Contains(got, "count who got it") || !strings.Contains(got, "<dd>7</dd>") || !strings.Contains(got, "waits.example") {
			t.Errorf("%s: %s", path, got)
		}
	}
}
