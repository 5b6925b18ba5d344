package catalogue_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/rshub/rshub/publisher/catalogue"
)

// items yields the rows of a table. It is a source.CatalogueOptions.Entries. One statement sees one state of the
// table, so the catalogue is whole whatever is committed meanwhile. If the database fails on the way, the last value is an
// error, and nothing is deleted.
func items(db *sql.DB) func(ctx context.Context) iter.Seq2[catalogue.Entry, error] {
	return func(ctx context.Context) iter.Seq2[catalogue.Entry, error] {
		return func(yield func(catalogue.Entry, error) bool) {
			rows, err := db.QueryContext(ctx, "SELECT id, modified, sha256 FROM item")
			if err != nil {
				yield(catalogue.Entry{}, err)
				return
			}
			defer rows.Close() //nolint:errcheck // it was only read
			for rows.Next() {
				var id int64
				var sum []byte
				e := catalogue.Entry{Type: "text/html"}
				err := rows.Scan(&id, &e.LastMod, &sum)
				e.URL, e.Hash = fmt.Sprintf("https://repo.example.org/item/%d", id), fmt.Sprintf("sha-256:%x", sum)
				if !yield(e, err) || err != nil {
					return
				}
			}
			if err := rows.Err(); err != nil {
				yield(catalogue.Entry{}, err)
			}
		}
	}
}

// A repository on a database: its rows as a catalogue.
func Example_databaseSQL() {
	db := sql.OpenDB(table{rows: [][]any{
		{int64(1), time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC), make([]byte, 32)},
		{int64(2), time.Date(2026, 11, 25, 11, 0, 0, 0, time.UTC), make([]byte, 32)},
	}})
	defer db.Close() //nolint:errcheck // it was only read

	w := catalogue.NewWriter(os.Stdout)
	for e, err := range items(db)(context.Background()) {
		if err = errors.Join(err, w.Write(e)); err != nil {
			fmt.Println(err)
			return // without the end, nothing is deleted
		}
	}
	_ = w.End() // of standard output
	// Output:
	// {"url":"https://repo.example.org/item/1","hash":"sha-256:0000000000000000000000000000000000000000000000000000000000000000","type":"text/html","lastmod":"2026-11-25T10:00:00Z"}
	// {"url":"https://repo.example.org/item/2","hash":"sha-256:0000000000000000000000000000000000000000000000000000000000000000","type":"text/html","lastmod":"2026-11-25T11:00:00Z"}
	// {"end":true,"count":2}
}
