package relay

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
)

// What a parser accepts, every document can have, and its URL is of this Source.
func fuzz(f *testing.F, parse func([]byte) ([]source.Given, error)) {
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parse(text)
		if err != nil {
			if all = nil; strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q has several lines", err)
			}
		} else if len(all) == 0 {
			t.Error("nothing was read, without an error")
		}
		at := resourcesync.Head{Capability: resourcesync.ChangeList, From: time.Unix(0, 0)}
		at.Links = []resourcesync.Link{{Rel: "up", Href: "https://example.org/capabilitylist.xml"}}
		w, err := resourcesync.NewWriter(io.Discard, at, resourcesync.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			r := &all[i].Resource
			if err := all[i].Check(); err != nil || !strings.HasPrefix(r.URL, prefixes[0]) {
				t.Errorf("%q: %v", r.URL, err)
			}
			if err := w.Write(resourcesync.Entry{Loc: r.URL, Change: all[i].Change, Datetime: at.From, Links: r.Links}); err != nil {
				t.Errorf("%q: %v", r.URL, err)
			}
		}
	})
}

const seed = `{"change":"updated","url":"https://example.org/a","length":1,"hash":"` + someMD5 + `","type":"text/html","lastmod":"2026-01-02","links":[{"rel":"alternate","href":"https://example.org/b","pri":1}]}`

func FuzzJSON(f *testing.F) {
	f.Add([]byte(seed))
	f.Add([]byte("[" + seed + `,{"change":"deleted","url":"https://example.org/c"}]`))
	fuzz(f, func(b []byte) ([]source.Given, error) { return parseJSON(b, prefixes) })
}

func FuzzForm(f *testing.F) {
	f.Add([]byte("change=updated&url=https://example.org/a&length=1&type=text/html&lastmod=2026-01-02&hash=" + someMD5))
	fuzz(f, func(b []byte) ([]source.Given, error) { return parseForm(b, prefixes) })
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(strings.Replace(seed, "{", `{"id":"1",`, 1)))
	f.Add([]byte(`{"id":"2","changes":[` + seed + `]}`))
	fuzz(f, func(b []byte) ([]source.Given, error) {
		l, err := parseLine(b, prefixes)
		return l.changes, err
	})
}

// Every line has one answer, however they arrive.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{}\n\nx\r\n{"), 1)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		lines := bytes.Count(text, []byte("\n"))
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			lines++
		}
		var out bytes.Buffer
		r := New(Options{Record: accept, Prefixes: prefixes})
		if err := r.Lines(pieces{bytes.NewReader(text), max(piece%100, 1)}, &out); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(out.Bytes(), []byte("\n")); got != lines {
			t.Errorf("%d lines have %d answers", lines, got)
		}
	})
}

// pieces reads a few bytes at a time.
type pieces struct {
	r    io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }
