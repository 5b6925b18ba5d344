package history

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/negotiate"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/resourcesync"
)

// The headers of answers.
const (
	// HeaderUntil is the instant up to which an answer goes.
	HeaderUntil = "RSHub-Until"
	// HeaderPosition is the Position behind an answer.
	HeaderPosition = "RSHub-Position"
	// HeaderGap names, as from/until, an interval that the answer lacks. If until is the from of the
	// document, the gap is before it. Else the answer ends at the gap.
	HeaderGap = "RSHub-Gap"
)

// The Cache-Control of answers that never change, and of all others. No shared cache may store what only readers
// with a token may see.
const (
	forever        = "public, max-age=31536000, immutable"
	foreverPrivate = "private, max-age=31536000, immutable"
	recheck        = "no-cache"
)

// forever is the Cache-Control of what never changes.
func (s *Service) forever() string {
	if s.o.Private {
		return foreverPrivate
	}
	return forever
}

// changes reports whether a topic has change notifications, or may have: after a reset its kind is
// open. A topic that never had an interval has none.
func changes(head *journal.Head) bool {
	return head.Kind == journal.KindChange || head.Kind == "" && !head.Until.IsZero()
}

// Changes answers with the changes of one topic as a Change List, or as an index of several if
// there are many (MEM-01). An error is returned before anything is written: *UnknownError,
// ErrNoChanges, ErrGone, *TrimmedError, *FutureError, *BusyError, or that of the store.
func (s *Service) Changes(w http.ResponseWriter, r *http.Request, q Query, from Reader) error {
	turn, err := s.begin(from.Name)
	if err != nil {
		return err
	}
	defer turn.end()
	if err := from.charge(0); err != nil {
		return err
	}
	topic := q.Topics[0]
	p, err := s.plan(r.Context(), topic, q)
	if err != nil {
		return err
	}
	a := answer{s: s, turn: turn, topic: topic, plan: p, asked: s.asked(r, topic), within: q.Index, closed: q.To != nil || !p.open(), gzip: negotiate.Gzip(r.Header)}
	status := http.StatusOK
	if notModified(r, a.tag()) {
		status = http.StatusNotModified
	}
	sent := status == http.StatusOK && r.Method != http.MethodHead && !a.index()
	if err := from.planned(p.bytes(), sent); err != nil {
		return err
	}
	if status == http.StatusOK { // a refusal costs no body
		if err := a.findUp(r.Context()); err != nil {
			return err
		}
	}
	a.headers(w.Header(), q.To != nil)
	w.WriteHeader(status)
	if status != http.StatusOK || r.Method == http.MethodHead {
		return nil
	}
	out := s.answerTo(r.Context(), w, turn, least)
	if err := a.write(r.Context(), out); err != nil {
		if !out.failed && r.Context().Err() == nil {
			s.o.Log.Warn("an answer about the history of a topic broke off", zap.String("event", "history_failed"), zap.String("topic", topic), zap.Error(err))
		}
		panic(http.ErrAbortHandler) // so that the reader does not accept half of a document as the whole
	}
	return nil
}

// plan makes the plan of the answer to q.
func (s *Service) plan(ctx context.Context, topic string, q Query) (*plan, error) {
	head, err := s.head(ctx, topic)
	if err != nil {
		return nil, err
	}
	if !changes(&head) {
		return nil, ErrNoChanges
	}
	p := planner{
		limits: s.limits, damaged: &s.damaged, plan: plan{head: head},
		cursor: cursor{journal: s.o.Journal, topic: topic},
	}
	switch {
	case q.Earliest:
		p.cursor.at, p.plan.end = head.Trimmed, head.Trimmed
		err = p.follow(ctx, journal.Anchor{})
	case q.To != nil && q.To.place(topic).Position == 0:
		return nil, &QueryError{paramTo, "is a position of another topic"}
	case q.After != nil:
		err = p.after(ctx, q.After.place(topic), q.To.place(topic))
	default:
		err = p.since(ctx, q.Since)
	}
	if q.Index != "" {
		p.plan.first() // an index is in no other one
	}
	return &p.plan, err
}

// head returns the head of a topic that had notifications. *UnknownError: it had none.
func (s *Service) head(ctx context.Context, topic string) (journal.Head, error) {
	head, err := s.o.Journal.Head(ctx, topic)
	if err != nil {
		return head, fmt.Errorf("reading the journal: %w", err)
	}
	if head.Last.Position <= head.Removed.Position {
		return head, &UnknownError{Topic: topic}
	}
	return head, nil
}

// answer is a Change List, or the index of several.
type answer struct {
	s      *Service
	turn   *turn
	topic  string
	plan   *plan
	up     string // the Capability List
	asked  string // the question, as Query.Index has it
	within string // Query.Index of a part; empty: the answer is no part
	closed bool   // the document says when it ends
	gzip   bool
}

// findUp finds the Capability List: the one that the first notification names, else the hub's
// own.
func (a *answer) findUp(ctx context.Context) error {
	a.up = a.s.url(a.topic, paramDescribe, resourcesync.CapabilityList)
	if len(a.plan.parts) == 0 {
		return nil
	}
	err := a.s.bodies(ctx, a.turn, a.topic, &a.plan.parts[0], func(e *journal.Entry) error {
		n := resourcesync.NewNotificationReader(bytes.NewReader(e.Body), lenient)
		_, _ = n.Next() // an empty one has no entry
		up := n.Notification().Up
		h := a.head(a.plan.parts[0].from, time.Time{})
		h.Links[0].Href = up
		if _, err := resourcesync.NewWriter(io.Discard, h, resourcesync.WriteOptions{}); err == nil {
			a.up = up
		}
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// head is that of the document with an interval. An open one has no until.
func (a *answer) head(from, until time.Time) resourcesync.Head {
	h := resourcesync.Head{
		Capability: resourcesync.ChangeList, From: from, Until: until,
		Links: []resourcesync.Link{{Rel: "up", Href: a.up}},
	}
	if a.within != "" {
		h.Links = append(h.Links, resourcesync.Link{Rel: "index", Href: a.s.o.HubURL + "?" + a.within})
	}
	return h
}

// index reports whether the answer is an index.
func (a *answer) index() bool { return len(a.plan.parts) > 1 }

// until is the end of the whole; zero: it is open.
func (a *answer) until() time.Time {
	if !a.closed {
		return time.Time{}
	}
	return a.plan.end.Until
}

func (a *answer) headers(h http.Header, fixed bool) {
	h.Set("Content-Type", "application/xml; charset=utf-8")
	h.Set("Vary", "Accept, Accept-Encoding, Origin")
	h.Set(HeaderUntil, resourcesync.FormatDatetime(a.plan.end.Until))
	h.Set(HeaderPosition, PositionOf(a.topic, a.plan.end).String())
	for _, gap := range a.plan.before {
		h.Add(HeaderGap, gap.String())
	}
	if a.plan.after != nil {
		h.Add(HeaderGap, a.plan.after.String())
	}
	if !a.plan.open() {
		next := []string{paramAfter, PositionOf(a.topic, a.plan.end).String()}
		if a.plan.more {
			next = append(next, paramIndex, a.within)
		}
		h.Set("Link", "<"+a.s.url(a.topic, next...)+`>; rel="next"`)
	}
	h.Set("Cache-Control", recheck)
	if fixed {
		h.Set("Cache-Control", a.s.forever())
	}
	if a.gzip {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", a.tag())
}

// tag is the entity tag: it names every entry of the answer, since entries never change.
func (a *answer) tag() string {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, a.topic, a.closed, a.gzip, a.plan.gaps(), a.plan.from()) // a hash never fails
	for i := range a.plan.parts {
		p := &a.plan.parts[i]
		_, _ = fmt.Fprintln(h, p.after.Position, p.last.Position, p.last.Nonce)
	}
	return `"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// String names the gap as from/until.
func (g *Gap) String() string {
	return resourcesync.FormatDatetime(g.From) + "/" + resourcesync.FormatDatetime(g.Until)
}

// notModified reports whether the reader has the answer with this entity tag.
func notModified(r *http.Request, tag string) bool {
	for value := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if value = strings.TrimPrefix(strings.TrimSpace(value), "W/"); value == tag || value == "*" {
			return true
		}
	}
	return false
}

// write writes the document.
func (a *answer) write(ctx context.Context, w io.Writer) error {
	if a.index() {
		return a.writeIndex(w)
	}
	h := a.head(a.plan.from(), a.until())
	d, err := resourcesync.NewWriter(w, h, resourcesync.WriteOptions{Gzip: a.gzip, AsRead: true})
	if err != nil {
		return err
	}
	for i := range a.plan.parts {
		if err := a.s.bodies(ctx, a.turn, a.topic, &a.plan.parts[i], func(e *journal.Entry) error { return a.s.copyEntries(d, e) }); err != nil {
			return err
		}
	}
	return d.Close()
}

func (a *answer) writeIndex(w io.Writer) error {
	h := a.head(a.plan.from(), a.until())
	h.Index = true
	d, err := resourcesync.NewWriter(w, h, resourcesync.WriteOptions{Gzip: a.gzip})
	if err != nil {
		return err
	}
	for i := range a.plan.parts {
		p, closed := &a.plan.parts[i], a.closed || i+1 < len(a.plan.parts)
		e := resourcesync.Entry{Loc: a.s.partURL(a.topic, p, closed, a.asked), From: p.from}
		if closed {
			e.Until = p.until
		}
		if err := d.Write(e); err != nil {
			return err
		}
	}
	return d.Close()
}

// lenient are the limits for notifications: the hub accepted them.
var lenient = resourcesync.Limits{Bytes: 1 << 40, Entries: 1 << 30, Links: 1 << 30}

// copyEntries writes the entries of a notification to d. If that fails, the next plan has a gap there.
func (s *Service) copyEntries(d *resourcesync.Writer, e *journal.Entry) error {
	n := resourcesync.NewNotificationReader(bytes.NewReader(e.Body), lenient)
	for {
		entry, err := n.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.Write(entry)
		}
		var refused *resourcesync.Error
		if errors.As(err, &refused) {
			s.damaged.add(e.Anchor())
		}
		if err != nil {
			return err
		}
	}
}

// After the time slowest an answer is broken off if its reader accepts less than so many bytes a second, since others
// wait for its memory: a page, or a whole document.
const (
	least         = 32 << 10
	leastDocument = 128 << 10 // as fast as deliveries have to be
	slowest       = time.Minute
	// piece is how many bytes have a time limit of their own.
	piece = 16 << 10
)

// steady writes to a reader. It fails if the reader accepts nothing for the time stall, or for up to a sixteenth less.
type steady struct {
	ctx   context.Context //nolint:containedctx // that of the one answer that it writes
	turn  *turn           // rests while the reader receives what is written; nil: there is none
	w     io.Writer
	on    interface{ SetWriteDeadline(t time.Time) error }
	stall time.Duration
	limit time.Time                   // what is set
	until func(written int) time.Time // when so much has to be written; nil: no matter
	n     int
	// failed says that the reader did not get what was written.
	failed bool
}

// steadily returns a writer for an answer that may last longer than the listener allows a request.
func (s *Service) steadily(w http.ResponseWriter) *steady {
	rc := http.NewResponseController(w)
	out := &steady{w: w, on: rc, stall: s.o.Stall}
	_ = rc.SetReadDeadline(time.Time{}) // where there is a connection; net/http would end the request with it
	return out
}

// answerTo returns a writer for an answer with a least rate. The turn of the answer rests while it waits for its
// reader.
func (s *Service) answerTo(ctx context.Context, w http.ResponseWriter, t *turn, least int) *steady {
	out, began := s.steadily(w), time.Now()
	out.ctx, out.turn = ctx, t
	out.until = func(written int) time.Time {
		return began.Add(slowest + time.Duration(written/least)*time.Second)
	}
	return out
}

func (s *steady) Write(b []byte) (written int, err error) {
	for len(b) > 0 {
		limit := time.Now().Add(s.stall)
		if s.until != nil {
			if whole := s.until(s.n); whole.Before(limit) {
				limit = whole
			}
		}
		if limit.Sub(s.limit).Abs() > s.stall/16 { // setting it for each event of many streams costs much
			s.limit = limit
			_ = s.on.SetWriteDeadline(limit) // where there is a connection
		}
		n, err := s.piece(b[:min(len(b), piece)])
		written, s.n, b = written+n, s.n+n, b[n:]
		if err != nil {
			s.failed = true
			return written, err
		}
	}
	return written, nil
}

func (s *steady) piece(b []byte) (n int, err error) {
	if s.turn == nil {
		return s.w.Write(b)
	}
	s.turn.rest()
	if n, err = s.w.Write(b); err == nil {
		err = s.turn.again(s.ctx)
	}
	return n, err
}
