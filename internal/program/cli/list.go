package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"time"
)

// Help texts of --json.
const (
	jsonWhole = "print the JSON that the API gives"
	jsonLines = "print one JSON object a line, as the API gives it"
)

// cell is a cell of a table, with the head of its column and how that gives way.
type cell struct {
	head string
	fit  fit
	text string
}

// split separates a row into its columns and its texts.
func split(row []cell) (columns []column, texts []string) {
	for _, c := range row {
		columns, texts = append(columns, column{c.head, c.fit}), append(texts, c.text)
	}
	return columns, texts
}

// table is a list of the API and how it looks to a person.
type table[T any] struct {
	path  string
	query url.Values
	// none is the text for an empty list, on stderr; it may be empty. Without a query
	// the heads of the columns are printed as well.
	none string
	// row returns the cells of an item. The zero item gives the heads.
	row func(item T, now time.Time) []cell
}

// print writes the list to the output of a command. It writes each page before it asks
// for the next one.
func (t table[T]) print(r *run) error {
	out := r.cmd.OutOrStdout()
	var zero T
	columns, _ := split(t.row(zero, r.now))
	g := &grid{out: out, columns: columns, width: r.env.width(out)}
	filtered := len(t.query) > 0
	if t.query == nil {
		t.query = url.Values{}
	}
	err := r.client.pages(r.cmd.Context(), t.path, t.query, func(items []json.RawMessage) error {
		var rows [][]string
		for _, raw := range items {
			err := output(r, raw, func(item T) error {
				_, texts := split(t.row(item, time.Now()))
				rows = append(rows, texts)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return g.write(rows)
	})
	if err != nil || g.widths != nil || r.json {
		return err
	}
	if t.none != "" {
		say(r.cmd.ErrOrStderr(), "%s\n", t.none)
	}
	if filtered {
		return nil
	}
	return g.page(nil)
}

// printJSON prints what the API gave as one line, with the members that this
// version does not know.
func printJSON(w io.Writer, raw json.RawMessage) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return err
	}
	compact.WriteByte('\n')
	_, err := compact.WriteTo(w)
	return err
}
