package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each line of the table names a benchmark that exists, in a package that reports its metrics.
func TestRowsAreThere(t *testing.T) {
	for _, r := range rows {
		files, err := filepath.Glob(filepath.Join("../..", r.pkg, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests: %v", r.pkg, err)
		}
		var source strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
		name, _, isCase := strings.Cut(r.name, "/")
		_, body, ok := strings.Cut(source.String(), "func Benchmark"+name+"(b *testing.B)")
		if !ok {
			t.Errorf("%s has no Benchmark%s", r.pkg, name)
		}
		if body, _, _ = strings.Cut(body, "\nfunc "); strings.Contains(body, "b.Run(") != isCase {
			t.Errorf("%s: the row has to name a case where the benchmark has some", r.name)
		}
		for _, unit := range append([]string{r.goal.metric}, r.also...) {
			lock, _, _ := strings.Cut(strings.TrimPrefix(unit, "%-"), "-at-") // lockshare composes both of a lock
			if ns, ok := strings.CutPrefix(unit, "ns-"); ok {
				lock = strings.TrimSuffix(ns, "/delivery")
			}
			if !strings.Contains(source.String(), `"`+unit+`"`) && !strings.Contains(source.String(), `"`+lock+`"`) {
				t.Errorf("%s: nothing reports %s", r.name, unit)
			}
		}
	}
}

// What go test prints becomes a line, with the goal and whether it was reached. What failed, or was
// not begun in time, is said.
func TestLines(t *testing.T) {
	output := "goos: linux\nBenchmarkOther-2 \t 1\t 5 ns/op\t 9 x-bare-loop\nBenchmarkSome/n=1-2 \t 1\t 12345 ns/op\t 0.9123 x-bare-loop\t 1234.6 events/s\nPASS\n"
	r := row{what: "some", pkg: "test/bench", name: "Some/n=1", goal: atLeast(1, "x-bare-loop"), also: []string{"events/s", "absent"}, full: true}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		goal goal
		err  error
		want string
	}{
		{"not reached", t.Context(), r.goal, nil, "| some | at least 1 | **0.912 x-bare-loop**, not reached; 1235 events/s | `RSHUB_BENCH_FULL=1 go test -run '^$' -bench '^BenchmarkSome$/^n=1$' ./test/bench` |"},
		{"reached", t.Context(), atMost(1, "x-bare-loop"), nil, "| at most 1 | **0.912 x-bare-loop**; 1235 events/s |"},
		{"no goal", t.Context(), shown("events/s"), nil, "| some |  | 1235 events/s; 1235 events/s |"},
		{"not reported", t.Context(), shown("gone"), nil, "the benchmark did not report `gone`"},
		{"failed", t.Context(), r.goal, errors.New("exit status 1"), "| failed: exit status 1 |"},
		{"late", ended, r.goal, nil, "| not measured: the time was over |"},
	} {
		m := &measurement{long: true, done: make(map[string]figures)}
		r := r
		r.goal = c.goal
		runs := 0
		test := func(context.Context, row, bool) (string, error) { runs++; return output, c.err }
		got := m.measure(c.ctx, r, test)
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if again := m.measure(c.ctx, r, test); c.err == nil && (again != got || runs > 1) {
			t.Errorf("%s: ran %d times, and then %s", c.name, runs, again)
		}
	}
}

// The table replaces the one before, and nothing else.
func TestReplace(t *testing.T) {
	page := "# A page\n" + begin + "old\n" + end + "more\n"
	got, err := replace([]byte(page), "new\n")
	if want := "# A page\n" + begin + "new\n" + end + "more\n"; err != nil || string(got) != want {
		t.Errorf("%q %v", got, err)
	}
	if _, err := replace([]byte("# A page\n"), "new\n"); err == nil {
		t.Error("a page without a place was accepted")
	}
}
