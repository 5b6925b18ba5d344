package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/engine/examine"
	"github.com/rshub/rshub/resourcesync"
)

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

// command runs the commands of this package as rshub does, in a pipe.
func command(t *testing.T, vars map[string]string, stdin string, args ...string) result {
	t.Helper()
	return commandOn(t, false, vars, stdin, args...)
}

// commandOn runs them on a terminal, or in a pipe.
func commandOn(t *testing.T, terminal bool, vars map[string]string, stdin string, args ...string) result {
	t.Helper()
	env := Env{
		Getenv:   func(name string) string { return vars[name] },
		Terminal: func(any) (int, bool) { return 0, terminal },
	}
	root := operatorCommands(env)
	var stdout, stderr bytes.Buffer
	root.SetContext(t.Context())
	code := Execute(root, args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// want checks a result; parts are looked for on stdout where the code is 0 or
// stdout says something, else on stderr.
func (r result) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	text := r.stdout
	if text == "" {
		text = r.stderr
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing", part)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
}

// fakeHub answers the API with n subscriptions and one topic.
func fakeHub(t *testing.T, n int) (vars map[string]string, calls *int) {
	t.Helper()
	calls = new(int)
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.WriteHeader(status)
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(v)
	}
	mux.HandleFunc("GET /api/v1/info", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			answer(w, 401, admin.Problem{Status: 401, Detail: "a token is needed"})
			return
		}
		answer(w, 200, admin.Info{
			Version: "v9", HubURL: "https://hub.example.org/", Addresses: admin.Addresses{Public: "0.0.0.0:80", Admin: "127.0.0.1:8081"},
			Store: admin.StoreInfo{Kind: "embedded", Location: "data"}, NodeID: "n1", Nodes: []admin.Node{{ID: "n1", Shards: 256}}, Uptime: 90061,
		})
	})
	mux.HandleFunc("GET /api/v1/topics", func(w http.ResponseWriter, _ *http.Request) {
		subscriptions := 3
		answer(w, 200, admin.Page[admin.Topic]{Items: []admin.Topic{{
			URL: "https://example.org/\x1b[31mchanges/", Kind: "change", LastUntil: time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC),
			Subscriptions: &subscriptions, Retained: admin.Retained{Entries: 7, Bytes: 1536}, Gaps: []admin.Gap{{}},
		}}})
	})
	mux.HandleFunc("GET /api/v1/subscriptions", func(w http.ResponseWriter, r *http.Request) {
		*calls++
		page := admin.Page[admin.Subscription]{Items: []admin.Subscription{}}
		var from, limit int
		_, _ = fmt.Sscan(r.FormValue("after"), &from)
		_, _ = fmt.Sscan(r.FormValue("limit"), &limit)
		for i := from; i < n && i < from+limit; i++ {
			page.Items = append(page.Items, admin.Subscription{
				ID: fmt.Sprintf("id-%d", i), State: "failing", Callback: "https://c.example/cb", Topic: r.FormValue("topic") + r.FormValue("host"),
				ExpiresAt: time.Now().Add(25*time.Hour + time.Minute), Lag: &admin.Lag{Notifications: 4, Seconds: 61}, Attempt: 3, LastStatus: 503,
			})
		}
		if from+limit < n {
			page.Next = fmt.Sprint(from + limit)
		}
		answer(w, 200, page)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return map[string]string{"RSHUB_ADMIN_URL": s.URL + "/"}, calls
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// What several hubs own is a line each.
func TestInfoOfSeveralHubs(t *testing.T) {
	i := admin.Info{
		Version: "v9", Store: admin.StoreInfo{Kind: "redis", Location: "redis://h:6379"}, NodeID: "n1", Unowned: "200-255",
		Nodes: []admin.Node{
			{ID: "n1", Shards: 128, Owns: "0-127", Addresses: admin.Addresses{Public: "10.0.0.1:8080"}, SeenAt: time.Now().Add(-3 * time.Second)},
			{ID: "n2", Shards: 72, Owns: "128-199"},
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(i) }))
	defer s.Close()
	vars := map[string]string{"RSHUB_ADMIN_URL": s.URL}
	command(t, vars, "", "info").want(t, ExitOK, "redis redis://h:6379", "200, of 2 hubs; of none: 200-255", "NODE", "n2    72 ", "128-199", "10.0.0.1:8080", "3s ago")
	i.NodesError = "the store is away"
	i.Nodes[0].Shards, i.Nodes[0].Owns, i.Nodes[1].Shards, i.Nodes[1].Owns = 0, "", 0, ""
	i.Nodes[1].SeenAt = time.Now().Add(time.Minute) // the hub answers after the command began, with its own clock
	command(t, vars, "", "info").want(t, ExitOK, "not known: the store is away", "n1    -       10.0.0.1:8080", "n2    - ", "-        now")
}

func TestInfo(t *testing.T) {
	vars, _ := fakeHub(t, 0)
	command(t, vars, "", "info").want(t, ExitRefused, "a token is needed", "--admin-token-file")
	token := file(t, "t0ken\n")
	command(t, vars, "", "info", "--admin-token-file", token).want(t, ExitOK, "https://hub.example.org/", "256, all of this hub", "1d1h")
	vars["RSHUB_ADMIN_TOKEN_FILE"] = token
	r := command(t, vars, "", "info", "--json")
	r.want(t, ExitOK)
	var i admin.Info
	if err := json.Unmarshal([]byte(r.stdout), &i); err != nil || i.NodeID != "n1" {
		t.Errorf("%q: %v", r.stdout, err)
	}
	command(t, vars, "", "info", "--admin-token-file", "nowhere").want(t, ExitUsage, "nowhere")
}

func TestTopicList(t *testing.T) {
	vars, _ := fakeHub(t, 0)
	r := command(t, vars, "", "topic", "ls")
	r.want(t, ExitOK, "TOPIC", "https://example.org/\\u001b[31mchanges/", "2026-01-02T03:04:05.0000006Z", "1.5 KiB")
	if strings.Contains(r.stdout, "\x1b") {
		t.Error("an escape sequence reached the terminal")
	}
}

func TestSubscriptionList(t *testing.T) {
	vars, calls := fakeHub(t, 2*pageSize+1)
	r := command(t, vars, "", "sub", "ls", "--topic=t1", "--host=h1", "--state=failing")
	r.want(t, ExitOK, "ID", "4 (1m1s)", "in 1d1h", "503 x3", "t1h1", "id-1000")
	if lines := strings.Count(r.stdout, "\n"); lines != 2*pageSize+2 || *calls != 3 {
		t.Errorf("%d lines in %d calls", lines, *calls)
	}
	r = command(t, vars, "", "sub", "ls", "--json")
	r.want(t, ExitOK)
	seen := 0
	for line := range strings.Lines(r.stdout) {
		var s admin.Subscription
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.ID != fmt.Sprintf("id-%d", seen) {
			t.Fatalf("line %d is %q: %v", seen, line, err)
		}
		seen++
	}
	if seen != 2*pageSize+1 {
		t.Errorf("%d lines", seen)
	}
	for _, args := range [][]string{{"sub", "all", "rm", "--yes", "--host="}, {"sub", "ls", "--topic="}} {
		command(t, vars, "", args...).want(t, ExitUsage, "is empty; leave it out")
	}
	command(t, vars, "", "refusals", "--kind=publsh").want(t, ExitUsage, "publish, ping", "did you mean publish?")
	command(t, vars, "", "sub", "ls", "--state=failng").want(t, ExitUsage, "pending, active, failing, paused, ended", "did you mean failing?")
	vars, _ = fakeHub(t, 0)
	const heads = "ID  STATE  LAG  LAST  NEXT  EXPIRES  CALLBACK  TOPIC\n"
	if r := command(t, vars, "", "sub", "ls"); r != (result{0, heads, ""}) {
		t.Errorf("an empty list: %+v", r)
	}
	if r := command(t, vars, "", "sub", "ls", "--state=failing"); r != (result{0, "", "No such subscription.\n"}) {
		t.Errorf("an empty list of those that fail: %+v", r)
	}
	if r := command(t, vars, "", "sub", "ls", "--json"); r != (result{}) {
		t.Errorf("an empty list in JSON: %+v", r)
	}
}

// What answers is not a hub, is another page, or does not answer.
func TestStrangeServers(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		args    []string
		code    int
		say     string
	}{
		"html":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, []string{"info"}, 1, "is not a hub's operator listener"},
		"other JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, []string{"info"}, 1, "is not a hub's operator listener"},
		"404":        {http.NotFound, []string{"topic", "ls"}, 1, "is not a hub's operator listener"},
		"404 of ours": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			_, _ = w.Write([]byte(`{"status":404,"detail":"no such topic"}`))
		}, []string{"topic", "ls"}, 3, "no such topic"},
		"500":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, []string{"sub", "ls"}, 1, "answers 500"},
		"redirect":   {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, []string{"sub", "ls"}, 1, "answers 302"},
		"same page":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"items":[],"next":"a"}`)) }, []string{"sub", "ls"}, 1, "same page"},
		"broken off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []string{"topic", "ls"}, 1, "broke off its answer"},
		"endless":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer+1)) }, []string{"info"}, 1, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tc.handler)
			defer s.Close()
			command(t, nil, "", append(tc.args, "--admin-url", s.URL)...).want(t, tc.code, tc.say)
		})
	}
	s := httptest.NewServer(http.NotFoundHandler())
	secure := strings.Replace(s.URL, "http:", "https:", 1)
	command(t, nil, "", "info", "--admin-url", secure).want(t, ExitUnreachable, secure+" does not speak https; write "+s.URL)
	s.Close()
	command(t, nil, "", "info", "--admin-url", s.URL).want(t, ExitUnreachable, "no hub answers at "+s.URL, "rshub serve", "RSHUB_ADMIN_URL")
	for _, bad := range []string{"127.0.0.1:8081", "ftp://h", "http://", "http://h/?a=b", "http://u:p@h"} {
		command(t, nil, "", "info", "--admin-url", bad).want(t, ExitUsage, "--admin-url")
	}
}

// A password in the hub's address is refused and shown nowhere, however the address
// is written.
func TestPasswordInAdminURLIsNotShown(t *testing.T) {
	const password = "pw-of-the-operator"
	for _, address := range []string{
		"http://admin:" + password + "@127.0.0.1:8081", "https://" + password + "@h/", "http://admin:" + password + "@127.0.0.1:80:81", "ftp://admin:" + password + "@h",
		"admin:" + password + "@127.0.0.1:8081", "http://admin:%zz" + password + "@h", "http://a:" + password + "@b@h/?x", "http://h/#:" + password + "@h",
	} {
		for name, got := range map[string]result{
			"flag":     command(t, nil, "", "info", "--admin-url", address),
			"variable": command(t, map[string]string{"RSHUB_ADMIN_URL": address}, "", "topic", "ls"),
		} {
			got.want(t, ExitUsage, "--admin-url", defaultAdminURL)
			if strings.Contains(got.stdout+got.stderr, password) {
				t.Errorf("%s %s: the password is shown: %s%s", name, address, got.stdout, got.stderr)
			}
		}
	}
}

const notification = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:05:00Z"/>
  <url>
    <loc>https://example.org/a</loc>
    <rs:md change="updated" datetime="2026-01-01T00:03:00Z"/>
  </url>
</urlset>
`

func TestValidate(t *testing.T) {
	good, bad := file(t, notification), strings.Replace(notification, `change="updated" `, "", 1)
	command(t, nil, "", "validate", good).want(t, ExitOK, "PASS "+good+": change-notification from 2026-01-01T00:00:00Z until 2026-01-01T00:05:00Z, 1 entry: 0 created, 1 updated, 0 deleted")
	command(t, nil, bad, "validate", "-").want(t, ExitFailure, "FAIL -:6:5: ", "DOC-17")
	command(t, nil, "<a>", "validate", "-").want(t, ExitFailure, "FAIL -:1:4: ", "not well-formed: XML")
	command(t, nil, "", "validate", "nowhere").want(t, ExitNotFound, "there is no file nowhere")
	command(t, nil, "", "validate").want(t, ExitUsage, "which document?")
	command(t, nil, "", "validate", t.TempDir()).want(t, ExitFailure, "directory")
	for in, want := range map[string]examine.Document{
		notification: {Valid: true, Capability: "change-notification", Entries: 1, Counts: resourcesync.Counts{Updated: 1}},
		bad:          {Kind: "bad document", Rule: "DOC-17", Line: 6},
	} {
		r := command(t, nil, in, "validate", "--json", "-")
		var v examine.Document
		if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
			t.Fatalf("%q: %v", r.stdout, err)
		}
		if v.Valid != want.Valid || v.Capability != want.Capability || v.Updated != want.Updated || v.Rule != want.Rule || v.Line != want.Line || v.Kind != want.Kind {
			t.Errorf("%+v, want %+v", v, want)
		}
	}
}

func TestUsage(t *testing.T) {
	command(t, nil, "", "version").want(t, ExitOK, "rshub v1.2.3 (go")
	command(t, nil, "", "version", "--json").want(t, ExitOK, `"version":"v1.2.3"`)
	for _, tc := range []struct {
		args []string
		say  string
	}{
		{nil, "Available Commands"},
		{[]string{"topic"}, "Available Commands"},
		{[]string{"topics"}, "did you mean topic?"},
		{[]string{"topic", "lst"}, "did you mean ls?"},
		{[]string{"topic", "ls", "extra"}, "extra"},
		{[]string{"topic", "ls", "--xyzzy"}, "--xyzzy"},
		{[]string{"callback", "--status=100"}, "--status"},
	} {
		r := command(t, nil, "", tc.args...)
		r.want(t, ExitUsage, tc.say, "--help'")
		if r.stdout != "" {
			t.Errorf("%q: on stdout: %s", tc.args, r.stdout)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
		say  string
	}{
		{nil, 0, ""},
		{fmt.Errorf("x"), 1, "rshub c: x\n"},
		{Fail(4, "y"), 4, "rshub c: y\n"},
		{fmt.Errorf("z: %w", Fail(5, "y")), 5, "rshub c: y\n"},
		{&Error{Code: 6}, 6, ""},
	} {
		root := Group("rshub", "", &cobra.Command{Use: "c", RunE: func(*cobra.Command, []string) error { return tc.err }})
		var stderr bytes.Buffer
		if code := Execute(root, []string{"c"}, strings.NewReader(""), &stderr, &stderr); code != tc.code || stderr.String() != tc.say {
			t.Errorf("%v: code %d, %q", tc.err, code, stderr.String())
		}
	}
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", -time.Second: "0s", time.Minute: "1m", 61 * time.Second: "1m1s", 25 * time.Hour: "1d1h", 24*time.Hour + time.Second: "1d", 400 * time.Millisecond: "0s",
	} {
		if got := quantity.SpanText(d); got != want {
			t.Errorf("span %v: %q, want %q", d, got, want)
		}
	}
	if got := instant(time.Time{}); got != "-" {
		t.Error(got)
	}
}

// What ran out is not said to expire in no time.
func TestExpiredSubscription(t *testing.T) {
	vars := serveJSON(t, "GET /api/v1/subscriptions", admin.Page[admin.Subscription]{Items: []admin.Subscription{
		{ID: "id-0", State: "ended", ExpiresAt: time.Now().Add(-time.Minute)},
	}})
	r := command(t, vars, "", "sub", "ls")
	r.want(t, ExitOK, "expired")
	if strings.Contains(r.stdout, "in 0s") {
		t.Error(r.stdout)
	}
}

// serveJSON answers one call of the API.
func serveJSON(t *testing.T, pattern string, v any) (vars map[string]string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return map[string]string{"RSHUB_ADMIN_URL": s.URL}
}

// What the ends log as JSON has durations in seconds, as the hub's log has.
func TestLogInSeconds(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLog(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("x", "wait", 1500*time.Millisecond)
	if !strings.Contains(out.String(), `"wait":1.5`) {
		t.Errorf("%s", &out)
	}
}
