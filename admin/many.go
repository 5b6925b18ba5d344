package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/subscriptions"
)

// manyTime is how long one call works on many subscriptions. It leaves time for the answer
// within changeTimeout.
const manyTime = 20 * time.Second

// manyActions are what can be done with many subscriptions at once, by their names.
var manyActions = map[string]func(c Control, since time.Time) func(ctx context.Context, id uuid.UUID) error{
	"retry":  func(c Control, _ time.Time) func(context.Context, uuid.UUID) error { return withoutRecord(c.Retry) },
	"pause":  func(c Control, _ time.Time) func(context.Context, uuid.UUID) error { return withoutRecord(c.Pause) },
	"resume": func(c Control, _ time.Time) func(context.Context, uuid.UUID) error { return withoutRecord(c.Resume) },
	"replay": func(c Control, since time.Time) func(context.Context, uuid.UUID) error {
		replay := c.Replay(since)
		return func(ctx context.Context, id uuid.UUID) error {
			_, _, err := replay(ctx, id)
			return err
		}
	},
	"end": func(c Control, _ time.Time) func(context.Context, uuid.UUID) error {
		return func(ctx context.Context, id uuid.UUID) error {
			return c.End(ctx, id, subscriptions.EndRemoved, endNotice)
		}
	},
}

func withoutRecord(do func(context.Context, uuid.UUID) (subscriptions.Record, error)) func(context.Context, uuid.UUID) error {
	return func(ctx context.Context, id uuid.UUID) error {
		_, err := do(ctx, id)
		return err
	}
}

// changeMany does one thing with all subscriptions that the filter of the query selects. If
// there is not enough time, the answer says where the next call continues.
func (a *subscriptionCalls) changeMany(r *http.Request) (_ any, what zap.Field, _ error) {
	what = zap.String("selected", r.URL.RawQuery)
	c, err := a.control()
	if err != nil {
		return nil, what, err
	}
	req, err := readMany(r)
	if err != nil {
		return nil, what, err
	}
	f, err := manyFilter(r.URL.Query())
	if err != nil {
		return nil, what, err
	}
	after, err := pageRequest{after: r.URL.Query().Get("after")}.afterID()
	if err != nil {
		return nil, what, err
	}
	m := &changer{do: manyActions[req.Action](c, req.Since)}
	err = a.walkMany(r.Context(), m, f, after)
	what = zap.String("selected", req.Action+" "+r.URL.RawQuery+": "+m.String())
	return m.Many, what, err
}

// manyFilter is parseFilter. It refuses an empty value, which a script sends whose variable is not
// set: it would select all.
func manyFilter(q url.Values) (filter, error) {
	for _, name := range []string{"topic", "state", "host"} {
		if q.Has(name) && q.Get(name) == "" {
			return filter{}, badRequest("%s= is empty. Leave it out to select subscriptions of every %s.", name, name)
		}
	}
	return parseFilter(q)
}

// countMany counts the subscriptions that changeMany would work on.
func (a *subscriptionCalls) countMany(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f, err := manyFilter(q)
	if err != nil {
		return err
	}
	after, err := pageRequest{after: q.Get("after")}.afterID()
	if err != nil {
		return err
	}
	var m changer
	if err := a.walkMany(r.Context(), &m, f, after); err != nil {
		return err
	}
	status := http.StatusOK
	if m.unfinished() {
		status = http.StatusAccepted
	}
	return writeAs(w, status, m.Many)
}

// changer does something with subscriptions, a batch at a time.
type changer struct {
	Many
	do      func(context.Context, uuid.UUID) error // nil: they are only counted
	waiting []uuid.UUID
}

// walkMany does it with those after an id that f selects. If a whole batch fails after others
// were done, the next call begins with it.
func (a *subscriptionCalls) walkMany(ctx context.Context, m *changer, f filter, after uuid.UUID) error {
	until, now := time.Now().Add(manyTime), a.Now()
	if sooner, hurried := ctx.Value(hurry{}).(time.Time); hurried {
		until = sooner
	}
	begin, batchEnd := after, after
	stopped := func(err error) error {
		if err == nil || m.Done == 0 {
			return err
		}
		m.Next, m.Error = batchEnd.String(), problemOf(err).detail
		return nil
	}
	for rec, err := range walk(ctx, after, a.Subscriptions.List, recordID) {
		if err != nil {
			return stopped(err)
		}
		if after != begin && time.Now().After(until) {
			m.Next = after.String()
			break
		}
		after = recordID(rec)
		if !f.match(rec, now) || rec.State(now) == subscriptions.StateEnded {
			continue
		}
		m.Matched++
		if m.do == nil {
			continue
		}
		if m.waiting = append(m.waiting, after); len(m.waiting) == batch {
			if err := m.flush(ctx, until); err != nil || m.Next != "" {
				return stopped(err)
			}
			batchEnd = after
		}
	}
	return stopped(m.flush(ctx, until))
}

// flush does it with those that wait, several at once, so that stores commit many changes
// together. It skips those for which there is nothing to do, and counts those that fail. If the
// time is over, the next call begins with those that it has not begun. An error says that all
// failed, or that changeTimeout is over.
func (m *changer) flush(ctx context.Context, until time.Time) error {
	results := make([]error, len(m.waiting))
	begun := 0
	var all errgroup.Group
	all.SetLimit(shardsAtOnce)
	for i, id := range m.waiting {
		if i > 0 && !time.Now().Before(until) {
			break
		}
		begun++
		all.Go(func() error {
			results[i] = m.do(ctx, id)
			return nil
		})
	}
	_ = all.Wait() // the results have the errors
	if left := len(results) - begun; left > 0 {
		m.Next = m.waiting[begun-1].String()
		m.Matched -= left
	}
	m.waiting, results = m.waiting[:0], results[:begun]
	var first error
	failed := 0
	for _, err := range results {
		switch {
		case err == nil:
			m.Done++
		case errors.Is(err, subscriptions.ErrNotFound), errors.Is(err, subscriptions.ErrEnded), errors.Is(err, subscriptions.ErrPaused),
			errors.Is(err, subscriptions.ErrUnchanged):
			m.Skipped++
		default:
			first = cmp.Or(first, err)
			failed++
		}
	}
	if failed > 0 && (failed == len(results) || ctx.Err() != nil) {
		return first
	}
	if m.Failed += failed; failed > 0 && m.Error == "" {
		m.Error = problemOf(first).detail
	}
	return nil
}

// readMany reads the body of a change of many subscriptions.
func readMany(r *http.Request) (req ManyRequest, err error) {
	if err = readObject(r, `{"action": "retry"}`, members{"action": &req.Action, "since": &req.Since}, "action"); err != nil {
		return req, err
	}
	switch names := slices.Sorted(maps.Keys(manyActions)); {
	case manyActions[req.Action] == nil:
		return req, badRequest("action=%q is unknown; use one of these: %s.", req.Action, strings.Join(names, ", "))
	case (req.Action == "replay") == req.Since.IsZero():
		return req, badRequest(`"since" goes with the action "replay", and only with that one.`)
	}
	return req, nil
}

// unfinished is for change: there is more to do than one call does.
func (m Many) unfinished() bool { return m.Next != "" }

// String says what was done.
func (m Many) String() string {
	text := fmt.Sprintf("%d done", m.Done)
	if m.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped because there was nothing to do: they ended, were never verified, are paused, or are like that already", m.Skipped)
	}
	if m.Failed > 0 {
		text += fmt.Sprintf(", %d failed", m.Failed)
	}
	if m.Error != "" {
		text += ": " + m.Error
	}
	return text
}
