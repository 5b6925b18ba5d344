package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// run measures and writes the page.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	only := flags.String("only", "", "measure only benchmarks that this regular expression matches, and only print")
	long := flags.Bool("long", false, "measure all, at full size")
	limit := flags.Duration("limit", 20*time.Minute, "begin no benchmark after this time, and stop the last one")
	page := flags.String("page", "docs/measurements.md", "the page to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *long {
		*limit = max(*limit, 3*time.Hour)
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	m := &measurement{machine: look(ctx), began: time.Now(), long: *long, done: make(map[string]figures)}
	_, _ = fmt.Fprintln(out, m.machine)
	for _, r := range rows {
		if wanted.MatchString(r.name) && (*long || !r.long || *only != "") {
			_, _ = fmt.Fprintln(out, m.measure(ctx, r, goTest))
		}
	}
	if *only != "" {
		return nil
	}
	m.loads = append(m.loads, loadAverage())
	text, err := os.ReadFile(*page)
	if err != nil {
		return err
	}
	text, err = replace(text, m.table())
	if err != nil {
		return fmt.Errorf("%s: %w", *page, err)
	}
	return os.WriteFile(*page, text, 0o644) //nolint:gosec // a page of the documentation
}

// figures are the metrics of a benchmark, by their units.
type figures map[string]float64

// measurement is one run.
type measurement struct {
	machine string
	began   time.Time
	long    bool
	loads   []string // averages, before each benchmark
	done    map[string]figures
	lines   []string // of the table
}

// measure adds a line to the table, and returns it.
func (m *measurement) measure(ctx context.Context, r row, test func(context.Context, row, bool) (string, error)) string {
	of, ok := m.done[r.pkg+r.name]
	var err error
	if !ok && ctx.Err() == nil {
		m.loads = append(m.loads, loadAverage())
		var output string
		if output, err = test(ctx, r, m.long); err == nil {
			of = read(output, "Benchmark"+r.name)
			m.done[r.pkg+r.name] = of
		}
	}
	result := r.result(of)
	switch {
	case ctx.Err() != nil && of == nil || errors.Is(err, errLate):
		result = "not measured: " + errLate.Error()
	case err != nil:
		result = "failed: " + err.Error()
	}
	line := fmt.Sprintf("| %s | %s | %s | `%s` |", r.what, r.goal, result, r.command(m.long))
	m.lines = append(m.lines, line)
	return line
}

// String says what is to be reached.
func (g goal) String() string {
	switch {
	case g.least > 0:
		return fmt.Sprintf("at least %v", g.least)
	case g.atMost > 0:
		return fmt.Sprintf("at most %v", g.atMost)
	default:
		return ""
	}
}

// reached reports whether a figure is as good as it should be.
func (g goal) reached(n float64) bool { return n >= g.least && (g.atMost == 0 || n <= g.atMost) }

// result describes what was found.
func (r row) result(of figures) string {
	n, ok := of[r.goal.metric]
	if !ok {
		return "the benchmark did not report `" + r.goal.metric + "`"
	}
	text := fmt.Sprintf("%s %s", short(n), r.goal.metric)
	if r.goal.String() != "" {
		text = "**" + text + "**"
		if !r.goal.reached(n) {
			text += ", not reached"
		}
	}
	for _, unit := range r.also {
		if n, ok := of[unit]; ok {
			text += fmt.Sprintf("; %s %s", short(n), unit)
		}
	}
	return text
}

// short is a number with three digits, or all that it has before the point.
func short(n float64) string {
	if n >= 100 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

// pattern selects the benchmark of r and no other.
func (r row) pattern() string {
	parts := strings.Split("Benchmark"+r.name, "/")
	for i := range parts {
		parts[i] = "^" + parts[i] + "$"
	}
	return strings.Join(parts, "/")
}

// command is what a person runs to measure r alone.
func (r row) command(long bool) string {
	text := fmt.Sprintf("go test -run '^$' -bench '%s' ./%s", r.pattern(), r.pkg)
	if r.full && long {
		text = fullEnv + "=1 " + text
	}
	return text
}

// errLate says that a benchmark did not end in time.
var errLate = errors.New("the time was over")

// fullEnv has the benchmarks of test/bench run at full size.
const fullEnv = "RSHUB_BENCH_FULL"

// goTest runs the benchmark of r, and returns what it printed.
func goTest(ctx context.Context, r row, long bool) (string, error) {
	left := time.Hour
	if at, ok := ctx.Deadline(); ok {
		left = max(time.Until(at)-5*time.Second, time.Second) // a benchmark that ends by itself leaves no process
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", r.pattern(), "-timeout", left.String(), "./"+r.pkg) //nolint:gosec // of the table
	cmd.Env = os.Environ()
	if r.full && long {
		cmd.Env = append(cmd.Env, fullEnv+"=1")
	}
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	switch {
	case bytes.Contains(output, []byte("panic: test timed out after")):
		return "", errLate
	case err != nil:
		fmt.Fprintln(os.Stderr, string(output))
	}
	return string(output), err
}

// procs is the number of processors at the end of a benchmark's name.
var procs = regexp.MustCompile(`-\d+$`)

// read returns the metrics of a benchmark from the output of go test.
func read(output, name string) figures {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || procs.ReplaceAllString(fields[0], "") != name {
			continue
		}
		of := figures{}
		for i := 2; i+1 < len(fields); i += 2 {
			if n, err := strconv.ParseFloat(fields[i], 64); err == nil {
				of[fields[i+1]] = n
			}
		}
		return of
	}
	return nil
}

// begin and end enclose what is written in the page.
const (
	begin = "<!-- make measure -->\n"
	end   = "<!-- the end of make measure -->\n"
)

// table is what stands between them.
func (m *measurement) table() string {
	return fmt.Sprintf("%s, load averages of the machine before each benchmark %s:\n\n| what | goal | result | command |\n|---|---|---|---|\n%s\n",
		m.machine, strings.Join(m.loads, ", "), strings.Join(m.lines, "\n"))
}

// replace puts a new table into the page.
func replace(page []byte, table string) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, there := bytes.Cut(rest, []byte(end))
	if !ok || !there {
		return nil, errors.New("the page has no place for the table")
	}
	return fmt.Appendf(nil, "%s%s%s%s%s", before, begin, table, end, after), nil
}
