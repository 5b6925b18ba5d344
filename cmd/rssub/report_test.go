package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/subscriber/destination"
)

// A report has a column for each of several sets, and none for a single one.
func TestReportsOfSets(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	synced := []destination.SetReport{{Set: "https://s.example/a", Baseline: "https://s.example/a/list", Until: at}, {Set: "https://s.example/b", Error: "it answered 404"}}
	audited := []destination.SetAudit{{Set: "https://s.example/a", AsOf: at, Equal: 3, Missing: 1}, {Set: "https://s.example/b", Unverifiable: 2}}
	for _, c := range []struct {
		sets int
		want []string
	}{
		{1, []string{"baseline https://s.example/a/list copied 0, 0 B deleted 0", "the copy is in sync as of 2026-01-01T00:00:00Z equal 0, 0 B read"}},
		{2, []string{
			"set https://s.example/a baseline https://s.example/a/list in sync as of 2026-01-01T00:00:00Z set https://s.example/b failed it answered 404 copied",
			"set https://s.example/a as of 2026-01-01T00:00:00Z found 3 equal, 1 missing, 0 differing, 0 unverifiable set https://s.example/b found 0 equal, 0 missing, 0 differing, 2 unverifiable equal",
		}},
	} {
		var out bytes.Buffer
		r := destination.Report{Baseline: synced[0].Baseline, Sets: synced[:c.sets]}
		a := destination.AuditReport{InSync: true, Sets: audited[:c.sets]}
		if c.sets == 1 {
			a.AsOf = at
		}
		if err := printReport(&out, r, false); err != nil {
			t.Fatal(err)
		}
		if err := printAudit(&out, a, false); err != nil {
			t.Fatal(err)
		}
		r.DryRun, r.Until = true, at
		if err := printReport(&out, r, false); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(strings.Fields(out.String()), " ")
		if n := strings.Count(got, "in sync as of 2026-01-01T00:00:00Z (dry run: would be)"); n != c.sets {
			t.Errorf("%d sets: %d times of a dry run in %s", c.sets, n, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%d sets: %s lacks %s", c.sets, got, want)
			}
		}
	}
}
