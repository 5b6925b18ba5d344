package publisher

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rshub/rshub/resourcesync"
)

// What is read from the database is checked, and what was packed comes back.
func FuzzUnpack(f *testing.F) {
	i := interval{From: time.Unix(1, 2).UTC(), Until: time.Unix(3, 4).UTC(), Cut: time.Unix(5, 0).UTC(), Size: 6, Entries: 7, InFile: true}
	f.Add(i.key(), i.pack())
	f.Add([]byte("k"), queued{at: i.From, above: true, text: []byte("x")}.pack())
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if q, err := unpackQueued(value); err == nil {
			if again, err := unpackQueued(q.pack()); err != nil || !again.at.Equal(q.at) || again.above != q.above || !bytes.Equal(again.text, q.text) {
				t.Errorf("%+v became %+v, %v", q, again, err)
			}
		}
		if i, err := unpackInterval(key, value); err == nil {
			if again, err := unpackInterval(i.key(), i.pack()); err != nil || again != i {
				t.Errorf("%+v became %+v, %v", i, again, err)
			}
			if from, ok := parseName(i.name()); !i.From.IsZero() && (!ok || !from.Equal(i.From)) {
				t.Errorf("the name %s is of %v", i.name(), from)
			}
		}
	})
}

// A name that somebody asks for is one of ours or none.
func FuzzParseName(f *testing.F) {
	f.Add(interval{From: time.Unix(1, 2).UTC()}.name())
	f.Add("20260101T000000.000000000Z-../../../../../../../../etc/passwd.xml")
	f.Add("20260101T000000,000000000Z-00000000000000000000000000000000.xml")
	f.Add(`20260101T000000.000000000Z-..\..\..\..\..\..\..\..\etc\pass.xml`)
	f.Fuzz(func(t *testing.T, name string) {
		from, ok := parseName(name)
		if !ok {
			return
		}
		if bytes.ContainsAny([]byte(name), "/\\") || from.Format(nameLayout)+name[len(nameLayout):] != name || from.Before(firstInstant) {
			t.Errorf("%q is of %v", name, from)
		}
	})
}

// Whatever a hub answers, what is made of it is bounded and printable.
func FuzzReadAnswer(f *testing.F) {
	f.Add(`{"type": "x#gap", "detail": "d", "expected_from": "2026-01-01T00:00:00Z"}`, "10")
	f.Add("Try again.", "Fri, 02 Jan 2026 03:04:05 GMT")
	f.Add(`{"id": "x", "duplicate": true}`, "-1")
	f.Add(strings.Repeat("\xff", 600), "")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body, after string) {
		_ = readReceipt(200, []byte(body))
		r := readRefusal(&http.Response{StatusCode: 409, Header: http.Header{"Retry-After": {after}}}, []byte(body), now)
		if utf8.RuneCountInString(r.Detail) > maxDetail || !utf8.ValidString(r.Detail) || bytes.ContainsAny([]byte(r.Detail), "\x00\n\r\x1b") {
			t.Errorf("detail %q", r.Detail)
		}
		if r.RetryAfter < 0 || r.RetryAfter > maxRetryAfter {
			t.Errorf("Retry-After %q is %v", after, r.RetryAfter)
		}
		if v := decide(r, interval{From: now, Until: now.Add(1)}, now, time.Time{}, func(time.Time) bool { return false }); v.step == advance || v.step == rewind {
			t.Errorf("%+v", v)
		}
	})
}

// An entry that is taken makes a notification that every hub takes, and comes
// back out of it when that is divided.
func FuzzComposeEntry(f *testing.F) {
	f.Add("https://source.example/a?b=c&d", "updated", "", "md5:0cc175b9c0f1b6a831c399e269772661", "text/plain", "</urlset>  <url>")
	f.Add("https://source.example/list.xml", "created", "resourcelist", "", "", "")
	f.Add("https://source.example/é", "deleted", "", "", "", "")
	at := time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC)
	f.Fuzz(func(t *testing.T, loc, change, capability, hash, media, foreign string) {
		kind := Changes
		if capability != "" {
			kind = Framework
		}
		e := resourcesync.Entry{Loc: loc, Change: resourcesync.ChangeType(change), Capability: capability, Hash: hash, Type: media}
		if foreign != "" {
			e.Attributes = []resourcesync.Attribute{{Space: "https://source.example/terms", Name: "note", Value: foreign}}
			e.Links = []resourcesync.Link{{Rel: "alternate", Href: loc, Type: media}}
		}
		q, err := composeEntry(kind, e, at)
		if err != nil {
			return
		}
		o := Options{Kind: kind, CapabilityList: "https://source.example/capabilitylist.xml"}
		body, err := o.notification(at, at.Add(1), content{append(bytes.Clone(q.text), q.text...), q.above})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := resourcesync.CheckNotification(bytes.NewReader(body), resourcesync.Limits{}); err != nil || n.Entries != 2 {
			t.Fatalf("%+v %v\n%s", n, err, body)
		}
		p := &Publisher{o: o}
		entries, err := p.entries(body)
		if err != nil || len(entries) != 2 || !bytes.Equal(entries[0].text, q.text) || entries[1].above != q.above {
			t.Errorf("%q came back as %+v, %v", q.text, entries, err)
		}
	})
}
