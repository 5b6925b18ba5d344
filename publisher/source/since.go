package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/rshub/rshub/internal/base/negotiate"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// The parameters of a question to a topic, and the header of its answer. They are those of a hub.
const (
	paramSince = "since" // an instant: what changed then or later
	paramUntil = "until" // an instant: what changed before it; in the addresses of closed parts
	paramIndex = "index" // an instant: the part is in the index of what changed since then
	// headerUntil is the instant up to which an answer goes.
	headerUntil = "RSHub-Until"
)

const (
	// memoryChanges is how many changes one Change List of an answer has.
	memoryChanges = 10_000
	// memoryTurns is how many answers of a set are written at a time. Others wait.
	memoryTurns = 2
)

// memory answers what changed since an instant with what the log of a set has (MEM-01).
type memory struct {
	composer *composer
	index    *Index
	dir      string // where answers are written before they are sent, so that a slow reader holds no memory
	most     uint64 // changes of one Change List
	turns    chan struct{}
}

// span is a run of changes in time, and in the log.
type span struct {
	from, until time.Time // a zero until: it goes on
	after, last uint64    // numbers of changes
}

// refusal says why a question is not answered.
type refusal struct {
	status          int
	problem         string // as docs/problems.md names it
	title, detail   string
	earliest, until time.Time
}

func (e *refusal) Error() string { return e.detail }

// document is the refusal as a problem (RFC 9457).
func (e *refusal) document() any {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return resourcesync.FormatDatetime(t)
	}
	return struct {
		Type     string `json:"type"`
		Title    string `json:"title"`
		Status   int    `json:"status"`
		Detail   string `json:"detail"`
		Earliest string `json:"earliest,omitempty"`
		Until    string `json:"until,omitempty"`
	}{"https://github.com/rshub/rshub/blob/main/docs/problems.md#" + e.problem, e.title, e.status, e.detail, stamp(e.earliest), stamp(e.until)}
}

// serve answers a question to a topic. The whole answer is written before it is sent, so that it is
// complete or an error.
func (m *memory) serve(w http.ResponseWriter, r *http.Request, t topic) {
	f, tag, packed, err := m.answer(w.Header(), r, t)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		negotiate.Refuse(w, r, refused.status, refused.detail, refused.document())
		return
	case r.Context().Err() != nil:
		return
	case err != nil:
		if !errors.Is(err, ErrNoBaseline) {
			m.composer.log.Error("the changes since an instant could not be read", "event", "document_failed", "error", err)
		}
		w.Header().Set("Retry-After", "2")
		refused = &refusal{status: http.StatusServiceUnavailable, problem: "busy", title: "The Source is not ready", detail: "The changes cannot be read now. Try again soon."}
		negotiate.Refuse(w, r, refused.status, refused.detail, refused.document())
		return
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := w.Header()
	h.Set("Content-Type", xmlType)
	h.Set("Vary", "Accept, Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", strconv.Quote(tag))
	if packed {
		h.Set("Content-Encoding", "gzip")
		if info, err := f.Stat(); err == nil { // ServeContent does not set it if there is an encoding
			h.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
		}
	}
	http.ServeContent(w, r, "", time.Time{}, f)
}

// answer writes the answer to a file without a name, which the caller closes.
func (m *memory) answer(h http.Header, r *http.Request, t topic) (f *os.File, tag string, packed bool, err error) {
	q, err := m.question(r, t)
	if err != nil {
		return nil, "", false, err
	}
	select {
	case m.turns <- struct{}{}:
		defer func() { <-m.turns }()
	case <-r.Context().Done():
		return nil, "", false, r.Context().Err()
	}
	if f, err = os.CreateTemp(m.dir, "answer-"); err != nil {
		return nil, "", false, err
	}
	packed = negotiate.Gzip(r.Header)
	if err = os.Remove(f.Name()); err == nil { // it is gone when it is closed
		if tag, err = m.fill(r.Context(), h, f, packed, t, q); errors.Is(err, ErrPruned) {
			tag, err = m.fill(r.Context(), h, f, packed, t, q) // it was there when it was looked for, and by now it is known to be gone
		}
	}
	if err != nil {
		_ = f.Close() // the first error says more
		return nil, "", false, err
	}
	return f, tag, packed, nil
}

// fill writes an answer to a file, and returns its entity tag.
func (m *memory) fill(ctx context.Context, h http.Header, f *os.File, packed bool, t topic, q question) (tag string, err error) {
	snap, err := m.index.Snapshot()
	if err != nil {
		return "", err
	}
	// While one is open, nothing is pruned, and strangers could have one open all the time. If what is
	// read here is pruned meanwhile, that is an error.
	snap.Close()
	a := reply{memory: m, snap: snap, topic: t.url, index: q.index}
	if a.span, err = m.span(snap, q.since, q.until); err != nil {
		return "", err
	}
	for {
		if tag, err = a.writeTo(ctx, f, packed); !errors.Is(err, resourcesync.ErrFull) || a.at <= a.after+1 {
			break
		}
		// Its links make it longer than a list may be: the rest is another one.
		end, err := snap.changed(a.at)
		if err != nil {
			return "", err
		}
		h.Set("Link", websub.Link{Target: a.address(end, q.until, q.index), Rels: []string{"next"}}.String())
		a.until, a.last = end, a.at-1
	}
	h.Set(headerUntil, resourcesync.FormatDatetime(a.end()))
	return tag, err
}

// reply is what a question is answered with.
type reply struct {
	*memory
	snap  *Snapshot
	topic string
	index time.Time // zero: it is in none
	span
	at uint64 // the change that is being written
}

// question is what a reader asks.
type question struct{ since, until, index time.Time }

// end is how far the answer goes.
func (a *reply) end() time.Time {
	if a.until.IsZero() {
		return a.snap.At
	}
	return a.until
}

// writeTo writes the answer to a file, over what it has, and returns its entity tag.
func (a *reply) writeTo(ctx context.Context, f *os.File, packed bool) (tag string, err error) {
	if err := f.Truncate(0); err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	hash := sha256.New()
	if !packed {
		err = a.write(ctx, io.MultiWriter(f, hash))
	} else {
		zip, _ := gzip.NewWriterLevel(f, gzip.BestSpeed) // fails only for an unknown level
		if err = a.write(ctx, io.MultiWriter(zip, hash)); err == nil {
			err = zip.Close()
		}
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if tag = hex.EncodeToString(hash.Sum(nil)[:16]); packed {
		tag += "-gzip"
	}
	return tag, err
}

// asksSince reports whether a URL asks for changes since an instant. A query that cannot be read does so
// if it mentions that.
func asksSince(u *url.URL) bool {
	q, err := url.ParseQuery(u.RawQuery)
	return q.Has(paramSince) || err != nil && strings.Contains(u.RawQuery, paramSince+"=")
}

// question reads the parameters.
func (m *memory) question(r *http.Request, t topic) (q question, err error) {
	if t.kind != publisher.Changes {
		return q, &refusal{status: http.StatusNotFound, problem: "no-changes", title: "The topic carries no changes", detail: "This topic carries framework notifications. Ask the topic of the changes, or read the Capability List."}
	}
	if !negotiate.Media(r.Header).Accepts(xmlType, "text/xml") {
		return q, &refusal{status: http.StatusNotAcceptable, problem: "not-acceptable", title: "There is no such form of the answer", detail: "A Change List is an XML document, and Accept excludes XML."}
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what cannot be read is missing in values
		return q, badQuestion("the query cannot be read: %s; write & between parameters, and %% as %%25", err)
	}
	for name, at := range map[string]*time.Time{paramSince: &q.since, paramUntil: &q.until, paramIndex: &q.index} {
		if !values.Has(name) {
			continue
		}
		if len(values[name]) > 1 {
			return q, badQuestion("%s is given more than once; give it once", name)
		}
		if *at, err = resourcesync.ParseDatetime(values.Get(name)); err != nil {
			return q, badQuestion("%s is %.60q; it has to be a time such as 2026-01-31T12:00:00Z, with + written as %%2B", name, values.Get(name))
		}
	}
	if values.Has(paramUntil) && !q.until.After(q.since) {
		return q, badQuestion("until is not later than since")
	}
	return q, nil
}

func badQuestion(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, problem: "bad-query", title: "The question is not valid", detail: fmt.Sprintf(format, args...) + "."}
}

// write writes a Change List of what changed, or an index of several.
func (a *reply) write(ctx context.Context, w io.Writer) error {
	head := resourcesync.Head{Capability: resourcesync.ChangeList, From: a.from, Until: a.until, Links: []resourcesync.Link{a.composer.upLink()}}
	entries, limits := a.composer.changes(ctx, a.snap, a.after, a.last, &a.at), a.composer.limits
	if a.last-a.after > a.most {
		head.Index, entries, limits = true, a.parts(), resourcesync.WriteOptions{}
	} else if !a.index.IsZero() {
		head.Links = append(head.Links, resourcesync.Link{Rel: "index", Href: a.address(a.index, time.Time{}, time.Time{})})
	}
	d, err := resourcesync.NewWriter(w, head, limits)
	if err != nil {
		return err
	}
	return writeAll(d, entries)
}

// address returns where a part is.
func (a *reply) address(from, until, index time.Time) string {
	query := url.Values{}
	for name, at := range map[string]time.Time{paramSince: from, paramUntil: until, paramIndex: index} {
		if !at.IsZero() {
			query.Set(name, resourcesync.FormatDatetime(at))
		}
	}
	return a.topic + "?" + query.Encode()
}

// span finds the changes from an instant on, up to another one if that is not zero.
func (m *memory) span(snap *Snapshot, since, until time.Time) (s span, err error) {
	begin, at := snap.Begin()
	if begin > 0 {
		at = at.Add(time.Microsecond) // changes are in whole microseconds
	}
	switch {
	case since.Before(at):
		return s, &refusal{
			status: http.StatusGone, problem: "trimmed", title: "The Source no longer has it", earliest: at,
			detail: "The log of changes begins at " + resourcesync.FormatDatetime(at) + ". Compare all resources first, or copy them anew; then ask for what changed since that time.",
		}
	case since.After(snap.At) || until.After(snap.At):
		return s, &refusal{
			status: http.StatusConflict, problem: "not-yet", title: "The topic has not come that far", until: snap.At,
			detail: "This Source has come to " + resourcesync.FormatDatetime(snap.At) + ".",
		}
	}
	s = span{from: since, until: until, last: snap.Last().Seq}
	if s.after, err = snap.before(since); err == nil && !until.IsZero() {
		s.last, err = snap.before(until)
	}
	return s, err
}

// parts yields the Change Lists of a span that is too long for one.
func (a *reply) parts() iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for from, after := a.from, a.after; ; after += a.most {
			until, closed := a.until, a.last-after > a.most
			if closed {
				var err error
				if until, err = a.snap.changed(after + a.most + 1); err != nil {
					yield(resourcesync.Entry{}, err)
					return
				}
			}
			if !yield(resourcesync.Entry{Loc: a.address(from, until, a.from), From: from, Until: until}, nil) || !closed {
				return
			}
			from = until
		}
	}
}
