package catalogue_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
)

// table is a database of one table, for the example and its test.
type table struct {
	rows [][]any
	err  error // after the rows
}

func (t table) Connect(context.Context) (driver.Conn, error) { return tableConn{t}, nil }
func (t table) Driver() driver.Driver                        { return nil }

type tableConn struct{ table table }

func (c tableConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not needed") }
func (c tableConn) Close() error                        { return nil }
func (c tableConn) Begin() (driver.Tx, error)           { return nil, errors.New("not needed") }

func (c tableConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &tableRows{c.table}, nil
}

type tableRows struct{ left table }

func (r *tableRows) Columns() []string { return []string{"id", "modified", "sha256"} }
func (r *tableRows) Close() error      { return nil }

func (r *tableRows) Next(dest []driver.Value) error {
	if len(r.left.rows) == 0 {
		if r.left.err != nil {
			return r.left.err
		}
		return io.EOF
	}
	for i, v := range r.left.rows[0] {
		dest[i] = v
	}
	r.left.rows = r.left.rows[1:]
	return nil
}

// If the database fails on the way, the catalogue is not whole.
func TestDatabaseThatFails(t *testing.T) {
	broken := errors.New("the server closed the connection")
	for what, rows := range map[string][][]any{"at once": nil, "after a row": {{int64(1), "2026-11-25", []byte{1}}}} {
		db := sql.OpenDB(table{rows: rows, err: broken})
		var last error
		for _, err := range items(db)(t.Context()) {
			last = err
		}
		if last == nil {
			t.Errorf("%s: no error", what)
		}
		_ = db.Close() // of a test
	}
}
