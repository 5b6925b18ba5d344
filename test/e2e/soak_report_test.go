package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// usage is what a program needs.
type usage struct {
	goroutines, descriptors int
	heap, held              int64 // bytes; held from the system, so without the pages of stores, which it may drop
}

// grown says what a program needs clearly more of than before; empty: nothing. What is bounded may have filled
// up meanwhile: a hub has up to 64 connections to each of three masters of Redis, with 64 KiB of buffers each,
// the events and pages of its streams (32 MiB), and the bodies that no delivery uses (4,096, of a few KiB).
func (u usage) grown(before usage) string {
	var more []string
	note := func(what string, was, is, slack int64, factor float64) {
		if float64(is) > float64(was)*factor+float64(slack) {
			more = append(more, fmt.Sprintf("%s: %d, was %d", what, is, was))
		}
	}
	note("goroutines", int64(before.goroutines), int64(u.goroutines), 50, 1.25)
	note("descriptors", int64(before.descriptors), int64(u.descriptors), 3*64, 1.25)
	note("heap", before.heap, u.heap, 48<<20, 1.5)
	note("held memory", before.held, u.held, 128<<20, 1.5)
	return strings.Join(more, ", ")
}

// most is the larger of each.
func (u usage) most(v usage) usage {
	return usage{max(u.goroutines, v.goroutines), max(u.descriptors, v.descriptors), max(u.heap, v.heap), max(u.held, v.held)}
}

// readUsage reads what Prometheus would.
func readUsage(metrics string) (u usage) {
	for line := range strings.Lines(metrics) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			u.goroutines = int(n)
		case "process_open_fds":
			u.descriptors = int(n)
		case "go_gc_heap_live_bytes":
			u.heap = int64(n)
		case "go_memory_classes_total_bytes":
			u.held += int64(n)
		case "go_memory_classes_heap_released_bytes":
			u.held -= int64(n)
		}
	}
	return u
}

// usages asks all programs of a soak.
func (s *soak) usages() (map[string]usage, error) {
	all := maps.Clone(s.admins)
	for n, h := range s.hubs {
		all[fmt.Sprint("rshub ", n)] = h.admin
	}
	got := map[string]usage{}
	for name, addr := range all {
		a, err := try(s.t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if got[name] = readUsage(string(a.body)); a.status != http.StatusOK || got[name].goroutines*got[name].descriptors == 0 || got[name].held == 0 { // the heap is not measured before the first collection
			return nil, fmt.Errorf("%s: GET /metrics answered %d, with %+v", name, a.status, got[name])
		}
	}
	return got, nil
}

// soakCalm is how long nothing happens before the first fault. After the last fault it is the least.
const soakCalm = 15 * time.Second

// measure notes, before the faults, what each program needs at most. After them it waits until each needs
// no more than that again.
func (s *soak) measure() {
	s.t.Helper()
	if s.usage[0] == nil {
		s.usage[0] = map[string]usage{}
		for end := time.Now().Add(soakCalm); time.Now().Before(end); time.Sleep(time.Second) {
			now, err := s.usages()
			must(s.t, err)
			for name, u := range now {
				s.usage[0][name] = s.usage[0][name].most(u)
			}
		}
		return
	}
	time.Sleep(soakCalm)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		now, err := s.usages()
		if err == nil {
			s.usage[1] = now
			for name, u := range now {
				if more := u.grown(s.usage[0][name]); more != "" {
					err = fmt.Errorf("%s: %s", name, more)
				}
			}
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("%v after the last fault was healed: %v", patience, err)
			s.profile()
			return
		}
	}
}

// profile logs what most of the live heap of each hub is.
func (s *soak) profile() {
	s.t.Helper()
	for n, h := range s.hubs {
		file := filepath.Join(s.t.TempDir(), fmt.Sprint("heap-", n))
		a, err := try(s.t.Context(), http.MethodGet, "http://"+h.admin+"/debug/pprof/heap?gc=1", s.operator, nil)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", a.status, a.body)
		}
		if err == nil {
			err = os.WriteFile(file, a.body, 0o600)
		}
		if err != nil {
			s.t.Logf("rshub %d: no profile of its heap: %v", n, err)
			continue
		}
		for _, order := range []string{"-flat", "-cum"} {
			top, err := exec.CommandContext(s.t.Context(), "go", "tool", "pprof", "-top", order, "-nodecount=40", "-sample_index=inuse_space", file).CombinedOutput()
			s.t.Logf("rshub %d: its heap, %s: %s (%v)", n, order, top, err)
		}
	}
}

// report is what happened, and what is wrong with that.
func report(all []*soak) (text string, complaints []string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	counts, planned, notHad := tally{}, map[string]bool{}, map[string]string{}
	for _, s := range all {
		for kind, n := range s.tally {
			counts.add(kind, n)
		}
		for kind := range groups(s.planned) {
			planned[kind] = true
		}
		maps.Copy(notHad, s.notHad)
	}
	complaints = counts.judge(slices.Sorted(maps.Keys(planned)))
	_, _ = fmt.Fprint(w, "\nFAULT\tCAUSED\tHEALED\n")
	sum := [2]int{}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		n := counts[kind]
		sum = [2]int{sum[0] + n[0], sum[1] + n[1]}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\n", kind, n[0], n[1])
	}
	_, _ = fmt.Fprintf(w, "all\t%d\t%d\n", sum[0], sum[1])
	for _, kind := range slices.Sorted(maps.Keys(notHad)) {
		if !planned[kind] {
			_, _ = fmt.Fprintf(w, "%s\tNOT HAD: %s\n", kind, notHad[kind])
		}
	}
	for _, s := range all {
		_, _ = fmt.Fprintf(w, "\n%s\n", s.t.Name())
		if s.final == nil {
			complaints = append(complaints, s.t.Name()+" was not judged")
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\n%d changes of files, %d copies of them\n", s.final.summary(), s.changes, len(s.chain.copies))
		s.final.tellGaps(w)
		_, _ = fmt.Fprint(w, "PROGRAM\tGOROUTINES\t\tDESCRIPTORS\t\tHEAP KiB\t\tHELD KiB\t\n")
		for _, name := range slices.Sorted(maps.Keys(s.usage[1])) {
			x, y := s.usage[0][name], s.usage[1][name]
			_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", name, x.goroutines, y.goroutines, x.descriptors, y.descriptors, x.heap>>10, y.heap>>10, x.held>>10, y.held>>10)
		}
	}
	_ = w.Flush() // to memory
	return b.String(), complaints
}

// tellGaps prints how many gaps there are for each reason, and how many faults may have caused them.
func (c *chronicle) tellGaps(w *tabwriter.Writer) {
	count := map[string]int{}
	for _, who := range c.callees {
		for _, g := range who.gaps {
			count[g.reason]++
		}
	}
	_, _ = fmt.Fprint(w, "GAP\tTOLD\tFAULTS THAT EXPLAIN IT\n")
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		why := strconv.Itoa(len(c.explained[reason]))
		if len(c.explained[reason]) == 0 {
			why = "the subscriber left"
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\n", reason, count[reason], why)
	}
}

// The judge of a soak notices what a program needs more of.
func TestUsageOfTheSoak(t *testing.T) {
	before := readUsage("# TYPE go_goroutines gauge\ngo_goroutines 100\nprocess_open_fds 40\ngo_gc_heap_live_bytes 2e+07\ngo_memory_classes_heap_released_bytes 1e+07\ngo_memory_classes_total_bytes 6e+07\n")
	if want := (usage{100, 40, 20_000_000, 50_000_000}); before != want {
		t.Fatalf("it reads %+v, want %+v", before, want)
	}
	for says, after := range map[string]usage{
		"":                         {120, 60, 22_000_000, 60_000_000},
		"goroutines: 200, was 100": {200, 40, 20_000_000, 50_000_000},
		"descriptors: 250, was 40": {100, 250, 20_000_000, 50_000_000},
		"heap: 90000000":           {100, 40, 90_000_000, 50_000_000},
		"held memory: 250000000":   {100, 40, 20_000_000, 250_000_000},
	} {
		if got := after.grown(before); says == "" && got != "" || !strings.Contains(got, says) {
			t.Errorf("of %+v it says %q, want %q", after, got, says)
		}
	}
}
