package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

const jsonLines = "print one JSON object a line, as the API gives it"

// table is a list of the API and how it looks to a person.
type table[T any] struct {
	path  string
	query url.Values
	// none is what to say where there is nothing. Where no query left anything out,
	// an empty table stands there as well, and none may be empty.
	none    string
	columns []column
	row     func(item T, now time.Time) []string
}

// print writes the list to the output of cmd. Each page is written out before
// the next one is asked for.
func (t table[T]) print(cmd *cobra.Command, env Env, c *client, asJSON bool) error {
	out := cmd.OutOrStdout()
	g := &grid{out: out, columns: t.columns, width: env.width(out)}
	filtered := len(t.query) > 0
	if t.query == nil {
		t.query = url.Values{}
	}
	err := c.pages(cmd.Context(), t.path, t.query, func(items []json.RawMessage) error {
		var rows [][]string
		for _, raw := range items {
			if asJSON {
				if err := printJSON(out, raw); err != nil {
					return err
				}
				continue
			}
			item, err := decode[T](c, raw)
			if err != nil {
				return err
			}
			rows = append(rows, t.row(item, time.Now()))
		}
		return g.write(rows)
	})
	if err != nil || g.widths != nil || asJSON {
		return err
	}
	if t.none != "" {
		say(cmd.ErrOrStderr(), "%s\n", t.none)
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
