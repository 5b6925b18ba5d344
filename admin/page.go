package admin

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// How many items a page has.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// minBatch is how many items are read at a time at least, so that a short page
// behind a filter does not cost a call of the store for each item passed by.
const minBatch = 256

// pageRequest is what every list is asked with.
type pageRequest struct {
	limit int
	after uuid.UUID // the last id of the page before
}

// parsePage reads ?limit= and ?after= of a query, and returns the rest with them.
// It refuses parameters that are neither these nor in filters, that come twice
// or can't be read, so that a filter with a slip in it does not select
// everything.
func parsePage(query string, filters ...string) (p pageRequest, q url.Values, err error) {
	if q, err = url.ParseQuery(query); err != nil {
		return p, q, badRequest("The query can't be read: %s.", err)
	}
	known := append([]string{"limit", "after"}, filters...)
	for name, values := range q {
		if len(values) > 1 {
			return p, q, badRequest("The parameter %q comes %d times; send it once.", name, len(values))
		}
		if !slices.Contains(known, name) {
			return p, q, badRequest("The parameter %q is not known here; these are: %s.", name, strings.Join(known, ", "))
		}
	}
	p.limit = DefaultLimit
	if s := q.Get("limit"); s != "" {
		if p.limit, err = strconv.Atoi(s); err != nil || p.limit < 1 || p.limit > MaxLimit {
			return p, q, badRequest("limit=%s is not a number from 1 to %d.", s, MaxLimit)
		}
	}
	if s := q.Get("after"); s != "" {
		if p.after, err = uuid.Parse(s); err != nil {
			return p, q, badRequest("after=%s is not the \"next\" of a page.", s)
		}
	}
	return p, q, nil
}

// walk yields what a store has, partition after partition and by id in each,
// from where the page begins on. It holds as many at a time as the page and one
// more, which tells whether another page follows, or minBatch. An error ends it.
func walk[T any](
	ctx context.Context, p pageRequest,
	read func(ctx context.Context, partition int, after uuid.UUID, limit int) ([]T, error),
	id func(T) uuid.UUID,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		after, partition, batch := p.after, 0, max(p.limit+1, minBatch)
		if after != uuid.Nil {
			partition = journal.Partition(after)
		}
		for ; partition < journal.Partitions; partition, after = partition+1, uuid.Nil {
			for {
				items, err := read(ctx, partition, after, batch)
				if err == nil {
					err = ctx.Err() // a long walk ends when nobody waits for it
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

// writePage writes the first limit items as a Page, each as soon as it is there.
// If items fails before the first, nothing is written and the error comes back;
// after it the connection is broken off, because half a page must not look like
// a whole one.
func writePage[T any](w http.ResponseWriter, limit int, items iter.Seq2[T, error], id func(T) string) error {
	n, last, end := 0, "", "]}\n"
	for item, err := range items {
		if n == limit { // there is one more
			next, _ := json.Marshal(last) // a string encodes
			end = `],"next":` + string(next) + "}\n"
			break
		}
		if err != nil && n == 0 {
			return err
		}
		if err != nil {
			panic(http.ErrAbortHandler)
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

// begin writes what stands before item n of a page.
func begin(w http.ResponseWriter, n int) {
	before := ","
	if n == 0 {
		w.Header().Set("Content-Type", "application/json")
		before = `{"items":[`
	}
	_, _ = io.WriteString(w, before) // the reader may have gone
}
