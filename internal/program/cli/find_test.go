package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/journal"
)

// stock answers the API with the given topics and subscriptions, and notes what
// changes it was asked for.
type stock struct {
	topics  []admin.Topic
	subs    []admin.Subscription
	changes []string
}

func (s *stock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		s.changes = append(s.changes, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	}
	give := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	rest, _ := strings.CutPrefix(r.URL.Path, "/api/v1/")
	parts := strings.Split(rest, "/")
	switch {
	case rest == "topics":
		give(admin.Page[admin.Topic]{Items: s.topics})
		return
	case rest == "subscriptions":
		give(admin.Page[admin.Subscription]{Items: s.subs})
		return
	case len(parts) == 3 && parts[2] == "notifications" && parts[1] != s.topics[0].ID:
		give(admin.Page[admin.Notification]{})
		return
	case len(parts) == 3 && parts[2] == "notifications":
		give(admin.Page[admin.Notification]{Items: []admin.Notification{{ID: "01a1fde0-b7e1-783d-bab2-93400a88ebae", Kind: "change", Counts: journal.Counts{Created: 1, Updated: 2, Deleted: 3}}}})
		return
	case parts[0] == "notifications" && parts[1] == "01a1fde0-b7e1-783d-bab2-93400a88ebae":
		give(admin.NotificationStatus{Notification: admin.Notification{ID: parts[1], Kind: "change"}, Topic: "https://example.org/changes/", Delivered: 5, Pending: 6, Skipped: 7})
		return
	case r.Method == http.MethodDelete && parts[0] == "topics" && r.URL.RawQuery == "" && s.topics[0].Subscriptions != nil:
		w.WriteHeader(http.StatusConflict)
		give(admin.Problem{Status: http.StatusConflict, Detail: fmt.Sprintf("The topic has active subscriptions: %d.", *s.topics[0].Subscriptions)})
		return
	case r.Method == http.MethodDelete && parts[0] == "topics":
		done := len(s.changes) > 1 // the first call is not enough
		if !done {
			w.WriteHeader(http.StatusAccepted)
		}
		give(admin.Removal{ID: parts[1], URL: testTopic, Ended: 20, Removed: done})
		return
	case len(parts) == 3 && parts[2] == "replay":
		give(admin.Replay{Notifications: 1, Subscription: s.subs[0]})
		return
	}
	for _, t := range s.topics {
		if parts[0] == "topics" && t.ID == parts[1] {
			give(t)
			return
		}
	}
	for _, sub := range s.subs {
		if parts[0] == "subscriptions" && sub.ID == parts[1] {
			give(sub)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
	give(admin.Problem{Status: http.StatusNotFound, Detail: "No such thing."})
}

const testTopic, testCallback = "https://example.org/changes/", "https://reader.example.net/cb"

// someStock has two topics and three subscriptions, of which the last two begin
// alike.
func someStock(t *testing.T) (*stock, map[string]string) {
	t.Helper()
	s := &stock{
		topics: []admin.Topic{{ID: urlID(testTopic), URL: testTopic, LastUntil: noon}, {ID: urlID("https://example.org/other/"), URL: "https://example.org/other/"}},
		subs: []admin.Subscription{
			{ID: urlID(pairKey(testTopic, testCallback)), Topic: testTopic, Callback: testCallback, Lag: &admin.Lag{Notifications: 2}},
			{ID: "abcd0000-0000-5000-8000-000000000001", Topic: testTopic, Callback: "https://a.example/"},
			{ID: "abcd0000-0000-5000-8000-000000000002", Topic: testTopic, Callback: "https://b.example/"},
		},
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, map[string]string{"RSHUB_ADMIN_URL": server.URL}
}

// The ids that a script computes: UUIDv5 in the URL namespace, as any tool does
// it (uuidgen --sha1 --namespace @url).
func TestIDsAreComputed(t *testing.T) {
	if got, want := urlID("http://www.example.com/"), "fcde3c85-2270-590f-9e7c-ee003d65e0e2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFind(t *testing.T) {
	_, vars := someStock(t)
	topic, sub := urlID(testTopic), urlID(pairKey(testTopic, testCallback))
	for _, tc := range []struct {
		args []string
		code int
		say  []string
	}{
		{[]string{"topic", "info", testTopic}, 0, []string{topic, "2026-01-31T12:00:00Z"}},
		{[]string{"topic", "info", topic}, 0, []string{testTopic}},
		{[]string{"topic", "info", strings.ToUpper(topic)}, 0, []string{testTopic}},
		{[]string{"topic", "info", topic[:minPart]}, 0, []string{testTopic}},
		{[]string{"topic", "info", topic[:minPart-1]}, 3, []string{"there is no topic " + topic[:minPart-1] + "; give at least 4 characters of an id\n"}},
		{[]string{"topic", "info", "01234567-89ab-5def-8123-456789abcdef"}, 3, []string{"there is no topic 01234567-89ab-5def-8123-456789abcdef\n"}},
		{[]string{"topic", "info", "https://example.org/change/"}, 3, []string{"did you mean " + topic + " (" + testTopic + ")?", "rshub topic ls"}},
		{[]string{"topic", "info", "f" + topic[1:]}, 3, []string{"did you mean " + topic}},
		{[]string{"topic", "info", "gopher://nowhere/"}, 3, []string{"there is no topic gopher://nowhere/\n"}},
		{[]string{"topic", "info"}, 2, []string{"which topic?"}},
		{[]string{"topic", "info", "a", "b"}, 2, []string{"one topic at a time"}},
		{[]string{"sub", "info", sub[:8]}, 0, []string{testCallback}},
		{[]string{"sub", "info", "--topic", testTopic, "--callback", testCallback}, 0, []string{sub}},
		{[]string{"sub", "info", "--topic", testTopic, "--callback", testCallback + "1"}, 3, []string{"did you mean " + sub}},
		{[]string{"sub", "info", "--topic", testTopic}, 2, []string{"both --topic and --callback"}},
		{[]string{"sub", "info", sub, "--topic", testTopic, "--callback", testCallback}, 2, []string{"either the id"}},
		{[]string{"sub", "info", "ABCD0"}, 2, []string{"more than one subscription; give more of the id:\n  abcd0000", "000000000001 (https://a.example/", "000000000002 (https://b.example/"}},
		{[]string{"sub", "info", "abcd0000-0000-5000-8000-000000000003"}, 3, []string{"did you mean abcd0000"}},
		{[]string{"sub", "info", "abcd0000-0000-5000-8000-0000000000002"}, 3, []string{"did you mean abcd0000-0000-5000-8000-000000000002"}},
		{[]string{"sub", "info", "x\x1b[31m"}, 3, []string{"there is no subscription x\\u001b[31m"}},
		{[]string{"notification", "info", "01a1fde0-b7e1-783d-bab2-93400a88ebae"}, 0, []string{"delivered  5", "pending    6", "skipped    7"}},
		{[]string{"notification", "info", "01a1fde0-b7e1"}, 0, []string{"delivered  5"}},
		{[]string{"notification", "info", "01a1fde0-b7e1-783d-bab2-93400a88ebaf"}, 3, []string{"did you mean 01a1fde0-b7e1-783d-bab2-93400a88ebae"}},
		{[]string{"topic", "notifications", testTopic}, 0, []string{"+1 ~2 -3"}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			command(t, vars, "", tc.args...).want(t, tc.code, tc.say...)
		})
	}
}

// Looking for what is not there ends.
func TestSearchIsBounded(t *testing.T) {
	page := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/topics" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"status":404,"detail":"no"}`)
			return
		}
		page++
		_, _ = io.WriteString(w, `{"items":[`)
		for i := range pageSize {
			_, _ = fmt.Fprintf(w, `{"id":"%08x-0000-5000-8000-000000000000"},`, page*pageSize+i)
		}
		_, _ = fmt.Fprintf(w, `{"id":"x"}],"next":"%d"}`, page)
	}))
	defer s.Close()
	vars := map[string]string{"RSHUB_ADMIN_URL": s.URL}
	// What is unique as far as was looked may not be.
	command(t, vars, "", "topic", "info", "00001000").want(t, ExitUsage, "may be the beginning of more than one", "00001000-0000")
	if page != maxLooked/(pageSize+1)+1 {
		t.Errorf("it asked for %d pages", page)
	}
}

// A notification is looked for in some topics, and not in endlessly many.
func TestSearchOfNotificationsIsBounded(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := admin.Page[admin.Topic]{}
		switch calls++; r.URL.Path {
		case "/api/v1/topics":
			for range pageSize {
				p.Items = append(p.Items, admin.Topic{ID: fmt.Sprint(calls)})
			}
			p.Next = fmt.Sprint(calls)
		case "/api/v1/notifications/01a1fde0-b7e1-783d-bab2-93400a88ebae":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"status":404,"detail":"no"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(p)
	}))
	defer s.Close()
	vars := map[string]string{"RSHUB_ADMIN_URL": s.URL}
	command(t, vars, "", "notification", "info", "01a1fde0-b7e1-783d-bab2-93400a88ebae").want(t, ExitNotFound)
	if calls > 2*maxTopics {
		t.Errorf("%d calls", calls)
	}
}

// What is changed needs a yes, by the flag or on a terminal.
func TestConfirmation(t *testing.T) {
	sub := urlID(pairKey(testTopic, testCallback))
	remove, reset := "DELETE /api/v1/subscriptions/"+sub, "POST /api/v1/topics/"+urlID(testTopic)+"/reset"
	for name, tc := range map[string]struct {
		args     []string
		terminal bool
		reply    string
		code     int
		change   string
		say      string
	}{
		"rm --yes":             {[]string{"sub", "rm", sub, "--yes"}, false, "", 0, remove, "Ended: " + testCallback},
		"rm, no terminal":      {[]string{"sub", "rm", sub}, false, "y\n", 2, "", "this would end subscription " + sub},
		"rm, yes":              {[]string{"sub", "rm", sub}, true, "Yes\n", 0, remove, "the 2 notifications that it is behind"},
		"rm, y without a line": {[]string{"sub", "rm", sub}, true, "y", 0, remove, "Go on? [y/N]"},
		"rm, no":               {[]string{"sub", "rm", sub}, true, "n\n", 1, "", "nothing was done"},
		"rm, return":           {[]string{"sub", "rm", sub}, true, "\n", 1, "", "nothing was done"},
		"rm, end of input":     {[]string{"sub", "rm", sub}, true, "", 1, "", "nothing was done"},
		"rm, nonsense":         {[]string{"sub", "rm", sub}, true, "yesno\n", 1, "", "nothing was done"},
		"reset --yes":          {[]string{"topic", "reset", testTopic, "--yes"}, false, "", 0, reset, "may start anywhere"},
		"reset, no terminal":   {[]string{"topic", "reset", testTopic}, false, "", 2, "", "Give --yes"},
		"reset, yes":           {[]string{"topic", "reset", testTopic}, true, "y\n", 0, reset, "has to start at 2026-01-31T12:00:00Z"},
		"retry needs none":     {[]string{"sub", "retry", sub}, false, "", 0, "POST /api/v1/subscriptions/" + sub + "/retry", "behind by 2 notifications"},
	} {
		t.Run(name, func(t *testing.T) {
			s, vars := someStock(t)
			r := commandOn(t, tc.terminal, vars, tc.reply, tc.args...)
			if r.code != tc.code || !strings.Contains(r.stdout+r.stderr, tc.say) {
				t.Errorf("%+v, want %d and %q", r, tc.code, tc.say)
			}
			if got := strings.Join(s.changes, ", "); got != tc.change {
				t.Errorf("changed: %q, want %q", got, tc.change)
			}
		})
	}
}

// What the commands say fits the state of the subscription: nothing is delivered to a paused one,
// and nothing is done to one that has ended.
func TestTextsFitTheState(t *testing.T) {
	sub := urlID(pairKey(testTopic, testCallback))
	path := "/api/v1/subscriptions/" + sub
	paused := admin.Subscription{State: "paused", VerifiedAt: noon, PausedAt: noon, Lag: &admin.Lag{Notifications: 2}}
	renewed := paused
	renewed.Request = &admin.Request{Mode: "subscribe"}
	ended := admin.Subscription{State: "ended", VerifiedAt: noon, ExpiresAt: noon.AddDate(10, 0, 0), EndedAt: noon, EndReason: "unsubscribed", LastStatus: 500, Attempt: 2}
	notified := ended
	notified.Request = &admin.Request{Mode: "denied", Denied: "no"}
	again := ended
	again.Request = &admin.Request{Mode: "subscribe"}
	for name, tc := range map[string]struct {
		s      admin.Subscription
		args   string
		change string
		say    string
	}{
		"replay of a paused one":        {paused, "replay " + sub + " --since 1h", "POST " + path + "/replay", "as soon as it is resumed"},
		"retry of a paused one":         {renewed, "retry " + sub, "POST " + path + "/retry", "Asking " + testCallback + " now."},
		"rm of an ended one":            {ended, "rm " + sub, "", "Nothing to end: " + testCallback + " gets nothing more of " + testTopic + " already (unsubscribed)."},
		"rm of an ended one, notified":  {notified, "rm " + sub + " --yes", "", "(unsubscribed)"},
		"rm of a denied one":            {admin.Subscription{State: "ended", Request: notified.Request}, "rm " + sub, "", "(denied)"},
		"rm of an ended one, as JSON":   {ended, "rm " + sub + " --json", "", `"end_reason":"unsubscribed"`},
		"rm of one that is asked for":   {again, "rm " + sub + " --yes", "DELETE " + path, "Ended: "},
		"rm of one whose lease ran out": {admin.Subscription{State: "ended", VerifiedAt: noon}, "rm " + sub + " --yes", "DELETE " + path, "Ended: "},
		"the last attempt of an end":    {ended, "info " + sub, "", "last attempt  500 x2"},
		"the last attempt in the list":  {ended, "ls", "", " unsubscribed "},
	} {
		t.Run(name, func(t *testing.T) {
			s, vars := someStock(t)
			tc.s.ID, tc.s.Topic, tc.s.Callback = sub, testTopic, testCallback
			s.subs[0] = tc.s
			r := command(t, vars, "", append([]string{"sub"}, strings.Fields(tc.args)...)...)
			if r.code != 0 || !strings.Contains(r.stdout+r.stderr, tc.say) || strings.Contains(r.stdout, "\nexpires ") {
				t.Errorf("%+v, want %q", r, tc.say)
			}
			if got := strings.Join(s.changes, ", "); !strings.HasPrefix(got, tc.change) || tc.change == "" && got != "" {
				t.Errorf("changed: %q, want %q", got, tc.change)
			}
		})
	}
}

// A topic that has subscriptions is not forgotten without --force, with how many
// they are as the reason; what takes more than one call is asked for again.
func TestTopicRemove(t *testing.T) {
	remove := "DELETE /api/v1/topics/" + urlID(testTopic)
	twice := remove + ", " + remove
	for name, tc := range map[string]struct {
		args     string
		subs     int // 0: not known
		terminal bool
		reply    string
		code     int
		change   string
		say      string
	}{
		"--yes":                      {"--yes", 0, false, "", 0, twice, "Removed: " + testTopic},
		"no terminal":                {"", 0, false, "y\n", 2, "", "this would remove " + testTopic + " with 7 notifications"},
		"yes":                        {"", 0, true, "y\n", 0, twice, "This will remove " + testTopic},
		"no":                         {"", 0, true, "n\n", 1, "", "nothing was done"},
		"it has subscriptions":       {"--yes", 3, false, "", 4, remove, "subscriptions: 3"},
		"it has them, on a terminal": {"", 3, true, "y\n", 4, "", "subscriptions: 3"},
		"it has them, no terminal":   {"", 3, false, "", 2, "", "Give --yes"},
		"--force":                    {"--force", 3, true, "y\n", 0, twice, "end 3 active subscriptions"},
		"--force --yes":              {"--force --yes", 3, false, "", 0, twice, "40 subscriptions ended."},
		"--json":                     {"--force --yes --json", 3, false, "", 0, twice, `"removed":true,"ended":40`},
	} {
		t.Run(name, func(t *testing.T) {
			s, vars := someStock(t)
			s.topics[0].Retained.Entries = 7
			if tc.subs > 0 {
				s.topics[0].Subscriptions = &tc.subs
			}
			r := commandOn(t, tc.terminal, vars, tc.reply, append([]string{"topic", "rm", testTopic}, strings.Fields(tc.args)...)...)
			if r.code != tc.code || !strings.Contains(r.stdout+r.stderr, tc.say) {
				t.Errorf("%+v, want %d and %q", r, tc.code, tc.say)
			}
			if got := strings.Join(s.changes, ", "); got != tc.change {
				t.Errorf("changed: %q, want %q", got, tc.change)
			}
		})
	}
	_, vars := someStock(t)
	command(t, vars, "", "topic", "rm", "https://example.org/no/", "--yes").want(t, ExitNotFound)
	command(t, vars, "", "topic", "rm").want(t, ExitUsage, "which topic?")
}

// At 80 columns no line is broken, and each callback's host can be read.
func TestSubListOn80Columns(t *testing.T) {
	s, vars := someStock(t)
	soon := time.Now().Add(150 * time.Minute)
	for i, callback := range []string{"https://reader.example.net:8443/a/long/way/to/the/callback?of=a", "https://b.example/"} {
		s.subs[i].Callback, s.subs[i].Topic = callback, "https://source.example.org/resourcesync/changes/"
		s.subs[i].State, s.subs[i].Attempt, s.subs[i].LastStatus = "failing", 12, 503
		s.subs[i].Lag, s.subs[i].NextAttemptAt, s.subs[i].ExpiresAt = &admin.Lag{Notifications: 12345, Seconds: 7000}, soon, soon
	}
	vars["COLUMNS"] = "80"
	r := commandOn(t, true, vars, "", "sub", "ls")
	lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	if r.code != 0 || len(lines) != 4 || !strings.Contains(lines[1], " reader.example.net:8443") || !strings.Contains(lines[2], "https://b.example/") {
		t.Errorf("%d\n%s", r.code, r.stdout)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestReplay(t *testing.T) {
	s, vars := someStock(t)
	sub := s.subs[0].ID
	command(t, vars, "", "sub", "replay", sub, "--since", "2026-01-31T13:00:00+01:00").want(t, ExitOK, "Delivering 1 notification to "+testCallback)
	if want := "POST /api/v1/subscriptions/" + sub + `/replay {"since":"2026-01-31T12:00:00Z"}`; len(s.changes) != 1 || s.changes[0] != want {
		t.Errorf("%q, want %q", s.changes, want)
	}
	command(t, vars, "", "sub", "replay", sub, "--since", "2h").want(t, ExitOK)
	_, sent, _ := strings.Cut(s.changes[1], `"since":`)
	var at time.Time
	if err := json.Unmarshal([]byte(strings.TrimSuffix(sent, "}")), &at); err != nil || time.Since(at) < 2*time.Hour || time.Since(at) > 3*time.Hour {
		t.Errorf("%q: %v", sent, err)
	}
	// No hub is asked for that.
	command(t, vars, "", "topic", "notifications", s.topics[1].URL, "--since", "2026-01-31T13:00:00+01:00").want(t, ExitOK,
		"No notification of this topic that ends after 2026-01-31T12:00:00Z is kept.")
	command(t, nil, "", "topic", "notifications", "x", "--since", "soon").want(t, ExitUsage, `"soon" is neither a datetime`)
	command(t, nil, "", "sub", "replay", sub, "--since", "soon").want(t, ExitUsage, `"soon" is neither a datetime`, "2h")
	command(t, vars, "", "sub", "replay", sub).want(t, ExitUsage, "--since is missing")
	command(t, vars, "", "sub", "replay", sub, "--since=").want(t, ExitUsage, "--since is missing")
	r := command(t, vars, "", "sub", "replay", sub, "--since", "2h", "--json")
	r.want(t, ExitOK, `{"notifications":1,"subscription":{`)
	if strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("%q is not one line", r.stdout)
	}
}

// What the hub refuses is said with what to do about it.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		header string
		body   string
		token  bool
		code   int
		say    []string
	}{
		"no token":       {401, "", `{"status":401,"detail":"This needs a token."}`, false, 4, []string{"This needs a token.", "--admin-token-file"}},
		"wrong token":    {401, "", `{"status":401,"detail":"This needs a token."}`, true, 4, []string{"does not know this token", "The token comes from"}},
		"wrong host":     {421, "", `{"status":421,"detail":"Only to localhost."}`, false, 4, []string{"Only to localhost.", "--admin-url", "http://127.0.0.1:8081"}},
		"starting":       {503, "2", `{"status":503,"detail":"The hub is starting."}`, false, 1, []string{"The hub is starting.", "Try again in 2s"}},
		"conflict":       {409, "", `{"status":409,"detail":"It has ended."}`, false, 4, []string{"It has ended."}},
		"older hub":      {405, "", `{"status":405,"detail":"POST is not a method."}`, false, 1, []string{"does not know this call", "another version"}},
		"older hub, 404": {404, "", `{"status":404,"detail":"There is nothing at /x; GET / lists."}`, false, 1, []string{"does not know this call", "another version"}},
		"newer hub":      {200, "", `{"id":"abcd0000-0000-5000-8000-000000000001","lag":"a lot"}`, false, 1, []string{"another version"}},
		"another id":     {200, "", `{"id":"x"}`, false, 1, []string{"is not a hub's operator listener"}},
		"conflict, bare": {409, "", "{}", false, 4, []string{"409"}},
		"bad gateway":    {502, "", "\x1b[31m", false, 1, []string{"answers 502"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tc.header != "" {
					w.Header().Set("Retry-After", tc.header)
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}))
			defer s.Close()
			vars := map[string]string{"RSHUB_ADMIN_URL": s.URL}
			if tc.token {
				vars["RSHUB_ADMIN_TOKEN_FILE"] = file(t, "t0ken")
			}
			r := command(t, vars, "", "sub", "info", "abcd0000-0000-5000-8000-000000000001")
			r.want(t, tc.code, tc.say...)
			if strings.ContainsAny(r.stderr, "\x1b") || r.stdout != "" || strings.Contains(r.stderr, "t0ken") {
				t.Errorf("%+v", r)
			}
		})
	}
	command(t, map[string]string{"RSHUB_ADMIN_TOKEN_FILE": file(t, " \n")}, "", "info").want(t, ExitUsage, "there is none in")
}

// A terminal is given no more columns than it has, and --json and a pipe all.
func TestTablesFitTheTerminal(t *testing.T) {
	_, vars := someStock(t)
	vars["COLUMNS"] = "70"
	onTerminal := commandOn(t, true, vars, "", "sub", "ls")
	for line := range strings.Lines(onTerminal.stdout) {
		if n := len([]rune(line)) - 1; n > 70 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if !strings.Contains(onTerminal.stdout, "…") {
		t.Errorf("nothing was shortened:\n%s", onTerminal.stdout)
	}
	for _, r := range []result{command(t, vars, "", "sub", "ls"), commandOn(t, true, vars, "", "sub", "ls", "--json")} {
		if !strings.Contains(r.stdout, testCallback) || strings.Contains(r.stdout, "…") {
			t.Errorf("something was shortened:\n%s", r.stdout)
		}
	}
}
