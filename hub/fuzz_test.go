package hub

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rshub/rshub/websub"
)

// Whatever comes in is answered, never with 500; nothing is stored unless the
// answer says so; and what is stored is what came.
func FuzzServeHTTP(f *testing.F) {
	add := func(r *http.Request, body string) {
		var headers strings.Builder
		_ = r.Header.Write(&headers)
		f.Add(r.Method, r.URL.Path, headers.String(), body)
	}
	add(publish(""), doc(0, 1, "a"))
	add(publish("", withToken("alice's token"), with("Accept", "application/json")), doc(0, 1, "a"))
	add(publish("", with(websub.HeaderSignature, "sha1=00")), doc(0, 1, "a"))
	add(publish("", with("Content-Location", topic+"1.xml")), notification(`capability="framework-notification"`))
	add(publish("", with("Content-Type", "application/xml; charset=x; charset=y")), "<")
	add(subscribeForm(), "hub.mode=subscribe&hub.topic="+topic+"&hub.callback=https://s.example/")
	add(subscribeForm(), "hub.mode=unsubscribe&hub.topic=%zz")
	add(subscribeForm(), "hub.mode=publish&hub.url="+topic)
	add(subscribeForm(), "hub.mode=publish&hub.topic="+topic+"&hub.url=http://10.0.0.1/&hub.url=")
	add(get(http.MethodGet, "text/html"), "")
	add(get("", "\x00"), "")

	f.Fuzz(func(t *testing.T, method, path, headers, body string) {
		w := newWorld(t)
		r := newRequest(http.MethodPost, hubURL, strings.NewReader(body))
		r.Method, r.URL = method, &url.URL{Path: path}
		for line := range strings.SplitSeq(headers, "\r\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				r.Header.Add(name, strings.TrimSpace(value))
			}
		}
		rec := w.do(r)
		entries, requests, pings := w.journal.entries(), len(w.subs.requests), len(w.marked())
		switch code := rec.Code; {
		case code == http.StatusInternalServerError || code < 200 || code >= 300 && code < 400:
			t.Errorf("%d", code)
		case (code == http.StatusAccepted) != (requests == 1 || pings > 0) || requests > 0 && pings > 0:
			t.Errorf("%d, %d requests and %d ping records", code, requests, pings)
		case (w.journal.stored() == 1) != (code == http.StatusOK && method == http.MethodPost):
			t.Errorf("%d and %d entries", code, w.journal.stored())
		case len(entries) == 1 && string(entries[0].Body) != body:
			t.Errorf("stored %q", entries[0].Body)
		}
		if media := rec.Header().Get("Content-Type"); media == "" {
			t.Error("no Content-Type")
		}
		if !w.memory.TryAcquire(w.o.MaxPublishBytes) {
			t.Error("memory was not given back")
		}
	})
}

// Of any headers that a topic answers with, the hub passes on only the unchanged Content-Type
// (HUB-61) and links that fit into a header.
func FuzzDescribe(f *testing.F) {
	f.Add("application/xml", "", `</caps>; rel="resourcesync"`)
	f.Add("application/xml;charset=UTF-8;x", "gzip", `<//other.example/>;rel=resourcesync, <:>;rel=resourcesync`)
	f.Add("Application/XML; charset=\"latin1\"", "", `<a b>; rel=resourcesync`)
	f.Add("", "", ",")
	f.Fuzz(func(t *testing.T, mediaType, coding, link string) {
		p := &publication{topic: topic}
		err := p.describe(http.Header{"Content-Type": {mediaType}, "Content-Encoding": {coding}, "Link": {link}})
		if (coding != "") && err == nil {
			t.Errorf("the encoding %q is taken", coding)
		}
		if err != nil {
			return
		}
		if p.mediaType != mediaType && (mediaType != "" || p.mediaType != anyMedia) {
			t.Errorf("%q became %q", mediaType, p.mediaType)
		}
		if essence, _, _ := strings.Cut(strings.ToLower(mediaType), ";"); p.plain != (strings.TrimSpace(essence) != mediaXML) {
			t.Errorf("%q is plain: %t", mediaType, p.plain)
		}
		for _, l := range websub.ParseLinks(p.relayed) {
			if err := websub.CheckURL("", l.Target); err != nil || len(p.relayed) > maxRelayed {
				t.Errorf("%q of %q: %v", l.Target, link, err)
			}
		}
	})
}
