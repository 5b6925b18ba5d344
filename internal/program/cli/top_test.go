package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rshub/rshub/admin"
)

// busyNow is a fleet with everything that can be wrong, and texts of strangers.
func busyNow() admin.Now {
	const evil = "https://evil.example/\x1b[2J\u202e" // no hub accepts it, and no command trusts that
	long := "https://example.org/" + strings.Repeat("long/", 60)
	l := func(id, callback string, status int) admin.Laggard {
		return admin.Laggard{ID: id, Topic: long, Callback: callback, Lag: admin.Lag{Notifications: 3, Seconds: 7200}, FailingSince: noon.Add(-time.Hour), NextAttemptAt: noon.Add(time.Minute), LastStatus: status}
	}
	return admin.Now{
		AsOf: noon,
		Hubs: []admin.HubNow{
			{
				Node: admin.Node{ID: "one", Shards: 128}, AsOf: noon, Active: 10, Failing: 2, DeliveriesPerSecond: 1.5, LagSeconds: 7200,
				Journal: &admin.JournalNow{Bytes: 95, Limit: 100}, Space: &admin.Space{Free: 3 << 20, Least: 1 << 20},
			},
			{Node: admin.Node{ID: "two", Shards: 128}, Draining: true, NotReady: []string{"store: it does not answer"}, DeliveriesPerSecond: 20},
		},
		FirstLoss: &admin.Loss{At: noon.Add(31 * time.Hour), Reason: "gave_up", Callback: evil},
		Failing:   []admin.Laggard{l("a", evil, 503), l("b", long, 0)}, Slowest: []admin.Laggard{l("a", evil, 503)},
		FailingHosts: []admin.FailingHost{{Host: "evil\x1b.example:443", Failing: 30, FailingSince: noon.Add(-3 * time.Hour), LastStatus: 503}, {Host: "other.example:443", Failing: 1}},
		Events: []admin.Event{
			{At: noon.Add(-time.Minute), Node: "two", Name: "stopping", Level: "info", Text: "asked to end"},
			{At: noon.Add(-time.Hour), Node: "one", Name: "operator_action", Level: "warn", Text: "the operator asked for a change; topic https://example.org/t"},
		},
	}
}

// serveNow answers GET /api/v1/now.
func serveNow(t *testing.T) (vars map[string]string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != nowPath || asked.Add(1) == 2 {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(busyNow())
	}))
	t.Cleanup(server.Close)
	return map[string]string{"RSHUB_ADMIN_URL": server.URL}, asked
}

// What is wrong is told in sentences, and a terminal of any size shows whole lines.
func TestTop(t *testing.T) {
	vars, _ := serveNow(t)
	command(t, vars, "", "top").want(t, ExitOK, "2 hubs, as of 12:00:00 UTC", "! Hub two is shutting down", "! Hub two is not ready: store: it does not answer. Until it answers, publishers and subscribers get 503, and deliveries may wait.", "! Hub two is alive, but has not reported how it is.",
		"! Hub one has 3.0 MiB of free space left; under 1.0 MiB it stores nothing new.", "! Hub one retains 95 B of the 100 B that its topics may", "! 2 subscriptions fail, of 12; the hub tries again.",
		"First loss in 1d7h (gave_up): https://evil.example/\\u001b[2J\\u202e", "deliveries/s 22 ", "largest lag 2h", "evil\\u001b.example:443  answers 503 Service Unavailable  3h     30", "answers 503 Service Unavailable", "is behind", "WARN operator_action")
	vars, _ = serveNow(t)
	command(t, vars, "", "top", "--json").want(t, ExitOK, `"first_loss":{`)
	for _, width := range []int{20, 40, 80, 200} {
		for _, rows := range []int{1, 5, 24, 60} {
			s := screenful{width: width, rows: rows}
			s.add(busyNow())
			for line := range strings.Lines(s.text()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%d columns: a line of %d: %s", width, n, line)
				}
			}
		}
	}
	s := screenful{}
	s.add(admin.Now{AsOf: noon, Hubs: []admin.HubNow{{AsOf: noon}}})
	if text := s.text(); !strings.Contains(text, "All is well.\nNo loss is in sight.\n") {
		t.Error(text)
	}
	// While the store does not answer, nobody knows how the other hubs are, and what is lost next.
	s.add(admin.Now{AsOf: noon, HubsError: "no answer", Hubs: []admin.HubNow{{Node: admin.Node{ID: "silent"}}}})
	if text := s.text(); strings.Contains(text, "No loss") || !regexp.MustCompile(`silent +unknown +0 +- +- +- `).MatchString(text) {
		t.Error(text)
	}
}

func TestSparkline(t *testing.T) {
	for want, values := range map[string][]float64{"": {0, 0}, "▁▅█": {0, 5, 10}, "█": {3}} {
		if got := sparkline(values); got != want {
			t.Errorf("%v: %s, want %s", values, got, want)
		}
	}
	if sparkline(nil) != "" {
		t.Error("nothing is drawn")
	}
}

// On a terminal it goes on over an answer that fails, until q, and leaves the terminal as it
// was.
func TestTopOnATerminal(t *testing.T) {
	vars, asked := serveNow(t)
	person, program := openTerminal(t, 80)
	root := operatorCommands(Env{Getenv: func(name string) string { return vars[name] }})
	root.SetContext(t.Context())
	shown := make(chan string, 1)
	go func() {
		var all []byte
		for b := make([]byte, 4096); ; {
			n, err := person.Read(b)
			all = append(all, b[:n]...)
			if err != nil || strings.Contains(string(all), "\x1b[?1049l") {
				shown <- string(all)
				return
			}
			if asked.Load() > 2 && strings.Count(string(all), "\x1b[H") > 2 {
				_, _ = person.WriteString("xq")
			}
		}
	}()
	if code := Execute(root, []string{"top"}, program, program, program); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
	text := <-shown
	for _, want := range []string{"\x1b[?1049h", "! these figures are old: ", "2 hubs", "\r\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %q", want, text)
		}
	}
	if strings.Contains(text, "\x1b[2J") || strings.Contains(text, "\u202e") {
		t.Errorf("a stranger's text reaches the terminal: %q", text)
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "2026-01-02T11:00:00Z one WARN operator_action the operator asked for a change; topic https://example.org/t\n2026-01-02T11:59:00Z two stopping asked to end\n"},
		{[]string{"--name", "stopping"}, "2026-01-02T11:59:00Z two stopping asked to end\n"},
		{[]string{"--topic", "https://example.org/t"}, "2026-01-02T11:00:00Z one WARN operator_action the operator asked for a change; topic https://example.org/t\n"},
		{[]string{"--host", "nowhere"}, ""},
		{[]string{"--json", "--name", "stopping"}, `{"at":"2026-01-02T11:59:00Z","node":"two","event":"stopping","level":"info","text":"asked to end"}` + "\n"},
	} {
		vars, _ := serveNow(t)
		got := command(t, vars, "", append([]string{"events"}, c.args...)...)
		if got.code != ExitOK || strings.ReplaceAll(got.stdout, noon.Format(time.DateOnly), "2026-01-02") != c.want {
			t.Errorf("%q: %d\n%s%s", c.args, got.code, got.stdout, got.stderr)
		}
	}
}

// Hubs remember some events of the log. To wait for another one would be in vain.
func TestEventsOfAnotherName(t *testing.T) {
	vars, _ := serveNow(t)
	got := command(t, vars, "", "events", "--name", "delivery_gap")
	if got.code != ExitUsage || !strings.Contains(got.stderr, "look for it in the log") || !strings.Contains(got.stderr, "clock_stepped") {
		t.Errorf("%d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// With --follow it goes on over an answer that fails, says so once, and prints no event twice.
func TestEventsFollow(t *testing.T) {
	vars, asked := serveNow(t)
	root := operatorCommands(Env{Getenv: func(name string) string { return vars[name] }})
	ctx, cancel := context.WithCancel(t.Context())
	root.SetContext(ctx)
	go func() {
		defer cancel()
		for asked.Load() < 3 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(topEvery / 2) // it has the third answer, and waits
	}()
	var stdout, stderr bytes.Buffer
	if code := Execute(root, []string{"events", "--follow"}, strings.NewReader(""), &stdout, &stderr); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
	if strings.Count(stdout.String(), "\n") != 2 || strings.Count(stderr.String(), "Trying again.") != 1 {
		t.Errorf("%s%s", &stdout, &stderr)
	}
}
