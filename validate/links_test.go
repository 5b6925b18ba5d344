package validate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
)

// atomLinks are the links of a feed.
func atomLinks(topic, hub string) string {
	return fmt.Sprintf(`<atom:link rel="hub" href="%s"/><atom:link rel="self" href="%s"/>`, hub, topic)
}

// DST-01: links within a page or feed count if no Link header names any hub, and only
// then. This holds for a check and for a fetch, which returns all that it read.
func TestLinksWithinContent_DST01(t *testing.T) {
	const rss = `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom">`
	page := func(topic string) string {
		return `<!DOCTYPE html><title>A blog</title><link rel="self" href="` + topic + `"><link rel="alternate hub" href="` + hubURL + `">`
	}
	feed := func(topic string) string {
		return `<?xml version="1.0"?>` + rss + `<channel>` + atomLinks(topic, hubURL) + `<item/></channel></rss>`
	}
	for _, tc := range []struct {
		name   string
		media  string
		link   string // Link header; TOPIC is the topic
		serve  func(topic string) string
		want   string
		says   string
		asked  string
		cutoff bool // the connection breaks
	}{
		{name: "a page", media: "text/html; charset=utf-8", serve: page, want: "good", asked: "HEAD GET"},
		{name: "XHTML", media: "application/xhtml+xml", serve: page, want: "good", asked: "HEAD GET"},
		{name: "Atom", media: "application/atom+xml", serve: func(topic string) string {
			return `<feed xmlns="http://www.w3.org/2005/Atom">` + strings.ReplaceAll(atomLinks(topic, hubURL), "atom:", "") + `</feed>`
		}, want: "good", asked: "HEAD GET"},
		{name: "RSS", media: "application/rss+xml", serve: feed, want: "good", asked: "HEAD GET"},
		{name: "as any XML", media: "application/xml", serve: feed, want: "good", asked: "HEAD GET"},
		{name: "with a DTD", media: "text/xml", serve: func(topic string) string {
			return `<!DOCTYPE rss SYSTEM "http://netscape.example/rss.dtd" [<!ENTITY hub "x">]>` + feed(topic)[len(`<?xml version="1.0"?>`):]
		}, want: "good", asked: "HEAD GET"},
		{name: "relative", media: "text/html", serve: func(string) string {
			return `<base href="/blog/"><link rel=self href="./"><link rel=hub href="` + hubURL + `">`
		}, want: "good", asked: "HEAD GET"},
		{name: "cut at the end of what is read", media: "text/html", serve: func(topic string) string {
			return page(topic) + strings.Repeat("<meta>", maxPage)
		}, want: "good", asked: "HEAD GET"},
		{name: "the self of a header, the hub of the page", media: "text/html", link: `<TOPIC>; rel="self"`, serve: page, want: "good", asked: "HEAD GET"},
		{name: "headers are enough", media: "text/html", link: links("TOPIC", hubURL), serve: page, want: "good", asked: "HEAD"},
		{
			name: "a header names another hub", media: "text/html", link: links("TOPIC", "https://other.example/"), serve: page,
			want: "denied", says: `no Link header with rel="hub" that is ` + hubURL, asked: "HEAD",
		},
		{
			name: "a header names another self", media: "text/html", link: `<https://other.example/>; rel="self"`, serve: page,
			want: "denied", says: "https://other.example/", asked: "HEAD GET",
		},
		{name: "another hub", media: "application/rss+xml", serve: func(topic string) string {
			return rss + "<channel>" + atomLinks(topic, "https://other.example/") + "</channel></rss>"
		}, want: "denied", says: `neither a Link header nor, in its head or as a feed, a link element with rel="hub"`, asked: "HEAD GET"},
		{name: "another self", media: "application/rss+xml", serve: func(string) string {
			return rss + "<channel>" + atomLinks("https://other.example/", hubURL) + "</channel></rss>"
		}, want: "denied", says: "https://other.example/", asked: "HEAD GET"},
		{name: "no self", media: "text/html", serve: func(string) string {
			return `<link rel=hub href="` + hubURL + `">`
		}, want: "denied", says: `rel="self"`, asked: "HEAD GET"},
		{name: "in the body of a page", media: "text/html", serve: func(topic string) string {
			return "<title>x</title><body>" + page(topic)
		}, want: "denied", says: `rel="self"`, asked: "HEAD GET"},
		{name: "in an item", media: "application/rss+xml", serve: func(topic string) string {
			return rss + "<channel><item>" + atomLinks(topic, hubURL) + "</item></channel></rss>"
		}, want: "denied", says: `rel="self"`, asked: "HEAD GET"},
		{name: "in an entity", media: "application/rss+xml", serve: func(topic string) string {
			return `<!DOCTYPE rss [<!ENTITY l '` + atomLinks(topic, hubURL) + `'>]>` + rss + "<channel>&l;</channel></rss>"
		}, want: "denied", says: `rel="self"`, asked: "HEAD GET"},
		{name: "beyond what is read", media: "text/html", serve: func(topic string) string {
			return strings.Repeat(" ", maxPage) + page(topic)
		}, want: "denied", says: `rel="self"`, asked: "HEAD GET"},
		{name: "half of it beyond", media: "text/html", serve: func(topic string) string {
			return strings.Repeat(" ", maxPage-len(page(topic))+5) + page(topic)
		}, want: "denied", says: `rel="hub"`, asked: "HEAD GET"},
		{name: "plain text", media: "text/plain", serve: page, want: "denied", says: `no Link header with rel="self"`, asked: "HEAD"},
		{name: "no type", serve: page, want: "denied", says: `no Link header with rel="self"`, asked: "HEAD"},
		{name: "broken off", media: "text/html", serve: page, cutoff: true, want: "unsure", says: "broke off", asked: "HEAD GET"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			serve := tc.serve
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.Method)
				mu.Unlock()
				topic := "http://" + r.Host + r.URL.Path
				w.Header()["Content-Type"] = nil
				if tc.media != "" {
					w.Header().Set("Content-Type", tc.media)
				}
				if tc.link != "" {
					w.Header().Set("Link", strings.ReplaceAll(tc.link, "TOPIC", topic))
				}
				if tc.cutoff {
					w.Header().Set("Content-Length", "100000")
				}
				_, _ = io.WriteString(w, serve(topic))
			}))
			defer srv.Close()
			topic := srv.URL + "/blog/"
			c := checker(t, TopicOptions{})
			err := c.Check(t.Context(), topic)
			if outcome(err) != tc.want || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("checked: %v, want %s that says %q", err, tc.want, tc.says)
			}
			if got := strings.Join(asked, " "); got != tc.asked {
				t.Errorf("asked by %s, want %s", got, tc.asked)
			}
			body, _, err := fetch(t.Context(), c, topic)
			if outcome(err) != tc.want || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("fetched: %v, want %s that says %q", err, tc.want, tc.says)
			}
			if err == nil && body != serve(topic) {
				t.Errorf("%d bytes were fetched of %d", len(body), len(serve(topic)))
			}
		})
	}
}

// Of a page without links 64 KiB are read, and a slow one does not block a caller for
// long.
func TestPagesAreReadWithinBounds(t *testing.T) {
	const timeout = 10 * time.Second
	for name, tc := range map[string]struct {
		every time.Duration // 1 KiB comes
		want  string
	}{
		"endless": {0, "denied"},
		"slow":    {time.Second, "unsure"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var body *trickle
			d := goodDoer()
			d.set(func(f *fakeDoer) {
				f.header = http.Header{"Content-Type": {"text/html"}}
				f.body = func(ctx context.Context) io.ReadCloser {
					body = &trickle{ctx: ctx, every: tc.every, n: 1 << 10}
					return body
				}
			})
			start := time.Now()
			err := checker(t, TopicOptions{Client: d, Timeout: timeout}).Check(t.Context(), fakeTopic)
			if took := time.Since(start); outcome(err) != tc.want || took > timeout || body.given > maxPage {
				t.Errorf("%s: %v after %v and %d bytes", name, err, took, body.given)
			}
		})
	}
}

// The requests to a page use the budget, and are returned if the page names this hub.
func TestPagesKeepToTheBudget(t *testing.T) {
	var blog string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/blog/" {
			_, _ = io.WriteString(w, `<link rel=self href="`+blog+`"><link rel=hub href="`+hubURL+`">`)
		}
	}))
	defer srv.Close()
	blog = srv.URL + "/blog/"
	var got []string
	budget := egress.NewBudget(8) // half of it is for strangers
	for _, path := range []string{"/blog/", "/blog/", "/blog/", "/a", "/b", "/c"} {
		got = append(got, outcome(checker(t, TopicOptions{Budget: budget}).Check(t.Context(), srv.URL+path)))
	}
	if want := []string{"good", "good", "good", "denied", "denied", "wait"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
