package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// How many items a page has.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// batch is how many items are read from a store at a time, whatever the page.
const batch = 256

// pageRequest has the parameters of every list.
type pageRequest struct {
	limit int
	after string // "next" of the previous page; empty: this is the first
}

// checkQuery refuses parameters that are unknown, come twice or cannot be read, so that a
// misspelled filter does not select everything. If known is nil, it accepts all.
func checkQuery(query string, known []string) error {
	if known == nil {
		return nil
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return badRequest("The query can't be read: %s.", err)
	}
	for name, values := range q {
		switch {
		case len(known) == 0:
			return badRequest("The parameter %q is not known here; this call has no parameters.", name)
		case !slices.Contains(known, name):
			return badRequest("The parameter %q is not known here; these are: %s.", name, strings.Join(known, ", "))
		case len(values) > 1:
			return badRequest("The parameter %q comes %d times; send it once.", name, len(values))
		}
	}
	return nil
}

// parsePage reads ?limit= and ?after= of a query that was checked.
func parsePage(q url.Values) (pageRequest, error) {
	p := pageRequest{limit: DefaultLimit, after: q.Get("after")}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > MaxLimit {
			return p, badRequest("limit=%s is not a number from 1 to %d.", s, MaxLimit)
		}
		p.limit = n
	}
	return p, nil
}

// badAfter is the answer to an ?after= that is not from a page.
func (p pageRequest) badAfter() error {
	return badRequest("after=%s is not the \"next\" of a page of this list.", p.after)
}

// afterID returns the id after which the page begins; the nil id: at the beginning.
func (p pageRequest) afterID() (uuid.UUID, error) {
	if p.after == "" {
		return uuid.Nil, nil
	}
	id, err := parseID(p.after)
	if err != nil {
		return id, p.badAfter()
	}
	return id, nil
}

// parseID reads an id of 36 characters. It refuses other forms of a UUID.
func parseID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err == nil && len(s) != len(uuid.Nil.String()) {
		err = errors.New("another form of a UUID")
	}
	return id, err
}

// walk yields the items of a store after an id, ordered by partition and then by id; nil:
// from the beginning. It has at most batch of them in memory. An error ends it.
func walk[T any](
	ctx context.Context, after uuid.UUID,
	read func(ctx context.Context, partition int, after uuid.UUID, limit int) ([]T, error),
	id func(T) uuid.UUID,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		after, partition := after, 0
		if after != uuid.Nil {
			partition = journal.Partition(after)
		}
		for ; partition < journal.Partitions; partition, after = partition+1, uuid.Nil {
			for {
				items, err := read(ctx, partition, after, batch)
				if err == nil {
					err = ctx.Err() // end a long walk when the client disconnects
				}
				if err != nil {
					yield(none, err)
					return
				}
				if len(items) == 0 {
					break
				}
				for _, item := range items {
					if !yield(item, nil) {
						return
					}
				}
				after = id(items[len(items)-1])
			}
		}
	}
}

// maxRead is how many items are read for one page. So a filter that selects few of many
// needs several requests, and each is short.
const maxRead = 50_000

// readEnough is the error that ends the items of a page after maxRead of them. The list
// continues after the item with this id.
type readEnough struct{ after string }

func (e *readEnough) Error() string { return "the list continues after " + e.after }

// hurry is the key of a context for the time of Hurried.
type hurry struct{}

// Hurried returns a context for requests that would rather have less than wait: a page of a
// list, or a count, ends at a time, with what was found until then and the way to the next. At
// least one item is read for it.
func Hurried(ctx context.Context, until time.Time) context.Context {
	return context.WithValue(ctx, hurry{}, until)
}

// bounded yields the first n items, or those that are read until the time of Hurried, and
// then *readEnough if there are more.
func bounded[T any](ctx context.Context, items iter.Seq2[T, error], n int, id func(T) uuid.UUID) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last T
		until, hurried := ctx.Value(hurry{}).(time.Time)
		left := n
		for item, err := range items {
			if err == nil && (left == 0 || hurried && left < n && time.Now().After(until)) {
				var none T
				yield(none, &readEnough{id(last).String()})
				return
			}
			if !yield(item, err) {
				return
			}
			left--
			last = item
		}
	}
}

// writePage writes the first limit items as a Page, each as soon as it is read. It ends
// earlier at *readEnough. If items fails before the first one, writePage writes nothing and
// returns the error. After that the error is a *brokenOff.
func writePage[T any](w http.ResponseWriter, limit int, items iter.Seq2[T, error], id func(T) string) error {
	n, last, end := 0, "", "]}\n"
	for item, err := range items {
		var enough *readEnough
		if errors.As(err, &enough) && n < limit {
			last = enough.after
		}
		if n == limit || enough != nil { // there may be more
			next, _ := json.Marshal(last) // a string encodes
			end = `],"next":` + string(next) + "}\n"
			break
		}
		if err != nil && n == 0 {
			return err
		}
		if err != nil {
			return &brokenOff{err}
		}
		begin(w, n)
		if err := newEncoder(w).Encode(item); err != nil {
			panic(http.ErrAbortHandler) // the reader has gone
		}
		n, last = n+1, id(item)
	}
	if n == 0 {
		begin(w, 0)
	}
	_, _ = io.WriteString(w, end) // the same
	return nil
}

// begin writes the text before item n of a page.
func begin(w http.ResponseWriter, n int) {
	before := ","
	if n == 0 {
		w.Header().Set("Content-Type", "application/json")
		before = `{"items":[`
	}
	_, _ = io.WriteString(w, before) // the reader may have gone
}
