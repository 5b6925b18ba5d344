package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/quantity"
)

const (
	nowPath = "/api/v1/now"
	// topEvery is how often `rshub top` asks the hub.
	topEvery = 2 * time.Second
	// sparks is how many values a sparkline has.
	sparks = 40
	// topRows is how many lines of each list there are without a terminal, and topHosts how many
	// hosts there are at most.
	topRows  = 10
	topHosts = 5
)

// Top is `rshub top`.
func Top(env Env) *cobra.Command {
	var once bool
	f := new(clientFlags)
	cmd := f.onHub(env, jsonWhole, &cobra.Command{
		Use: "top", Short: "Show how all hubs are, and what fails", Args: NoArguments,
		Long: `Shows whether all hubs on the store are well, when the first loss is due, which
subscriptions have failed the longest and why, and what happened in the last hour.
On a terminal it is updated every two seconds; q ends it. Elsewhere, and with --once,
it is printed once. A browser shows the same at /ui/ of the operator's listener.`,
		Example: `  rshub top
  rshub top --once
  rshub top --json | jq .first_loss`,
	}, func(r *run, _ []string) error {
		out := r.cmd.OutOrStdout()
		raw, now, err := askNow(r.cmd.Context(), r.client)
		if err != nil {
			return err
		}
		if r.json {
			return printJSON(out, raw)
		}
		s := screenful{now: now, rows: topRows, width: env.width(out)}
		s.add(now)
		if tty, ok := Raw(out).(*os.File); ok && !once && term.IsTerminal(int(tty.Fd())) {
			return s.run(r, tty)
		}
		_, err = io.WriteString(out, s.text())
		return err
	})
	cmd.Flags().BoolVar(&once, "once", false, "print once and end, also on a terminal")
	return cmd
}

// askNow asks a hub how all hubs are.
func askNow(ctx context.Context, c *client) (raw json.RawMessage, now admin.Now, err error) {
	return ask(ctx, c, nowPath, "it does not report the state of the hubs", func(now admin.Now) bool { return len(now.Hubs) > 0 })
}

// screenful is what `rshub top` shows.
type screenful struct {
	now         admin.Now
	width, rows int       // of the terminal; a width of 0: there is none
	deliveries  []float64 // a second, the latest last
	trouble     error     // why there is nothing newer
}

// add shows a newer answer.
func (s *screenful) add(now admin.Now) {
	s.now, s.trouble = now, nil
	s.deliveries = append(s.deliveries, now.Total().DeliveriesPerSecond)
	s.deliveries = s.deliveries[max(len(s.deliveries)-sparks, 0):]
}

// run shows it on a terminal until the user leaves.
func (s *screenful) run(r *run, tty *os.File) error {
	// A signal, too, leaves the terminal as it was.
	ctx, cancel := signal.NotifyContext(r.cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if in, ok := r.cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
		go func() { // it ends with the process, or with the terminal
			for key := make([]byte, 1); ; {
				if _, err := in.Read(key); err != nil || key[0] == 'q' || key[0] == 'Q' || key[0] == 3 {
					cancel()
					return
				}
			}
		}()
	}
	const begin, home, end = "\x1b[?1049h\x1b[?25l", "\x1b[H\x1b[J", "\x1b[?25h\x1b[?1049l"
	say(tty, begin)
	defer say(tty, end)
	for {
		if width, rows, err := term.GetSize(int(tty.Fd())); err == nil && width > 0 {
			s.width, s.rows = width, rows
		}
		lines := strings.Split(strings.TrimSuffix(s.text(), "\n"), "\n")
		// A terminal without a mode of its own for new lines wants both characters.
		say(tty, "%s%s", home, strings.Join(lines[:min(len(lines), max(s.rows, 1))], "\r\n"))
		if !clock.Sleep(ctx, topEvery) {
			return nil
		}
		_, now, err := askNow(ctx, r.client)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.trouble = err
		default:
			s.add(now)
		}
	}
}

// text is the whole, of lines that end with a new line each.
func (s *screenful) text() string {
	var b strings.Builder
	t, n := s.now.Total(), &s.now
	line := func(format string, args ...any) { b.WriteString(Line(fmt.Sprintf(format, args...)) + "\n") }
	line("%s, as of %s", quantity.Count(len(n.Hubs), "hub", "hubs"), n.AsOf.UTC().Format("15:04:05 UTC"))
	if s.trouble != nil {
		line("! these figures are old: %v", s.trouble)
	}
	wrong := n.Wrong()
	for _, w := range wrong {
		line("! %s", w)
	}
	if len(wrong) == 0 {
		line("All is well.")
	}
	if n.UpgradePending {
		line("An upgrade is pending: rshub upgrade finish.")
	}
	if l := n.FirstLoss; l != nil {
		line("First loss in %s (%s): %s", quantity.SpanText(l.At.Sub(n.AsOf)), l.Reason, l.Callback)
	} else if len(wrong) == 0 {
		line("No loss is in sight.")
	}
	line("")
	line("deliveries/s %-8s %s", quantity.RateText(t.DeliveriesPerSecond), sparkline(s.deliveries))
	line("failures/s %s   in flight %d   largest lag %s   undelivered for %s", quantity.RateText(t.FailuresPerSecond), t.InFlight, quantity.SpanText(seconds(t.LagSeconds)), quantity.SpanText(seconds(t.UndeliveredSeconds)))
	line("active %d   failing %d   paused %d   pending %d   suspect hosts %d", t.Active, t.Failing, t.Paused, t.Pending, t.Suspect)
	line("")
	s.table(&b, []column{{"HUB", asID}, {"STATE", whole}, {"SHARDS", whole}, {"DELIVERIES/S", whole}, {"ACTIVE", dropped}, {"FAILING", whole}, {"RETAINED", dropped}, {"FREE", dropped}}, s.hubs())
	// The rest shares what is left of the screen: the subscriptions have the larger part.
	left := topRows
	if s.width > 0 {
		left = s.rows - strings.Count(b.String(), "\n") - 6
	}
	if hosts := s.failingHosts(topHosts); len(hosts) > 0 {
		line("")
		s.table(&b, []column{{"HOST", whole}, {"WHAT IS WRONG", whole}, {"SINCE", whole}, {"FAIL", whole}}, hosts)
		left -= len(hosts) + 2
	}
	some := max(left*2/3, 1)
	if worst := slices.Concat(n.Failing, n.Slowest); len(worst) > 0 {
		line("")
		s.table(&b, []column{{"CALLBACK", asHost}, {"WHAT IS WRONG", whole}, {"SINCE", whole}, {"NEXT", dropped}, {"BEHIND", whole}, {"TOPIC", droppedURL}}, s.worst(some))
	}
	if len(n.Events) > 0 {
		line("")
		for _, e := range n.Events[:min(len(n.Events), max(left-min(some, len(n.Failing)), 1))] {
			line("%s %s", e.At.UTC().Format(time.TimeOnly), eventText(e))
		}
	}
	return s.clipped(b.String())
}

// clipped cuts the lines that are wider than the terminal.
func (s *screenful) clipped(text string) string {
	if s.width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > s.width {
			line = string(runes[:s.width-1]) + "…\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func (s *screenful) table(out io.Writer, columns []column, rows [][]string) {
	_ = (&grid{out: out, columns: columns, width: s.width}).write(rows) // in memory
}

func (s *screenful) hubs() (rows [][]string) {
	for _, h := range s.now.Hubs {
		state, retained, free := "ready", "-", "-"
		switch {
		case h.Draining:
			state = "draining"
		case len(h.NotReady) > 0:
			state = "not ready"
		}
		if h.Journal != nil {
			retained = quantity.BytesText(h.Journal.Bytes)
		}
		if h.Space != nil {
			free = quantity.BytesText(h.Space.Free)
		}
		figures := []string{quantity.RateText(h.DeliveriesPerSecond), fmt.Sprint(h.Active), fmt.Sprint(h.Failing)}
		if h.AsOf.IsZero() { // it did not report how it is
			state, figures = "unknown", []string{"-", "-", "-"}
		}
		rows = append(rows, slices.Concat([]string{h.ID, state, fmt.Sprint(h.Shards)}, figures, []string{retained, free}))
	}
	return rows
}

// failingHosts are the hosts at which the most subscriptions fail, where these are several.
func (s *screenful) failingHosts(most int) (rows [][]string) {
	for _, h := range s.now.FailingHosts {
		if len(rows) < most && h.Failing > 1 {
			rows = append(rows, []string{h.Host, cmp.Or(admin.Cause(h.LastStatus, h.LastError), "-"), quantity.SpanText(s.now.AsOf.Sub(h.FailingSince)), fmt.Sprint(h.Failing)})
		}
	}
	return rows
}

// worst are the subscriptions that fail or are behind, each once.
func (s *screenful) worst(most int) (rows [][]string) {
	seen := map[string]bool{}
	for _, l := range slices.Concat(s.now.Failing, s.now.Slowest) {
		if seen[l.ID] || len(rows) == most {
			continue
		}
		seen[l.ID] = true
		why, since, next := cmp.Or(admin.Cause(l.LastStatus, l.LastError), "is behind"), "-", "-"
		if !l.FailingSince.IsZero() {
			since = quantity.SpanText(s.now.AsOf.Sub(l.FailingSince))
		}
		if !l.NextAttemptAt.IsZero() {
			next = quantity.SpanText(l.NextAttemptAt.Sub(s.now.AsOf))
		}
		rows = append(rows, []string{l.Callback, why, since, next, fmt.Sprint(l.Lag.Notifications), l.Topic})
	}
	return rows
}

// eventText is an event in a line.
func eventText(e admin.Event) string {
	text := e.Name + " " + e.Text
	if e.Level != "info" {
		text = strings.ToUpper(e.Level) + " " + text
	}
	return text
}

// sparkline draws values in a line, the largest as the highest.
func sparkline(values []float64) string {
	if len(values) == 0 || slices.Max(values) == 0 {
		return ""
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		b.WriteRune(levels[int(v/slices.Max(values)*float64(len(levels)-1)+0.5)])
	}
	return b.String()
}
