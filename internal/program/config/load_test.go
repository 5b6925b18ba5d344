package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rshub/rshub/internal/base/nearest"
)

// write puts a file into a fresh folder and returns its name.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, args, environ []string) (Config, Origins) {
	t.Helper()
	c, o, err := Load(args, environ)
	if err != nil {
		t.Fatal(err)
	}
	return c, o
}

// wantError loads what is wrong and looks for parts of the message.
func wantError(t *testing.T, args, environ []string, parts ...string) {
	t.Helper()
	_, _, err := Load(args, environ)
	if err == nil {
		t.Fatalf("%q %q: no error", args, environ)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q %q: the message lacks %q:\n%v", args, environ, part, err)
		}
	}
}

// The defaults that operators rely on.
func TestDefaults(t *testing.T) {
	c, o := load(t, nil, nil)
	want := Config{
		Listen: ":8080", AdminListen: "127.0.0.1:8081", DataDir: "./rshub-data", PublishersFile: "rshub-data/publishers.yaml",
		Continuity: "strict", TopicCheck: "require", PublishAuth: []string{"content", "token"},
		PublishRate: Rate{600, time.Minute}, SubscribeRate: Rate{600, time.Minute}, VerifyBudget: 20,
		MaxPending: 100_000, MaxPendingPerHost: 1000, MaxSubscriptions: 1_000_000,
		Stream: "open", StreamStall: 15 * time.Second, MaxStreams: 10_000, MaxStreamsPerAddress: 100, MaxHistory: 8,
		LeaseMin: 300 * time.Second, LeaseDefault: 864_000 * time.Second, LeaseMax: 2_678_400 * time.Second, ResumeWithin: 24 * time.Hour,
		Signature: "sha256", RetryFirst: 5 * time.Second, RetryMax: 6 * time.Hour, GiveUp: 72 * time.Hour, Timeout: 15 * time.Second,
		MaxInflight: 512, MaxInflightBytes: 256 << 20, PerHost: 8, CommitWindow: 100 * time.Millisecond,
		RetentionAge: 72 * time.Hour, RetentionBytes: 1 << 30, RetentionTotal: 8 << 30, MinFreeDisk: 256 << 20, MaxBody: 50 << 20,
		Drain: 15 * time.Second, LogLevel: "info", RedisPrefix: "rshub", OwnerLease: 30 * time.Second,
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	for _, one := range o {
		if one.From != "default" || !one.Default {
			t.Errorf("%s is from %s", one.Name, one.From)
		}
	}
}

func TestDevChangesDefaultsOnly(t *testing.T) {
	c, o := load(t, []string{"--dev", "--lease-min", "60s"}, []string{"RSHUB_MAX_PENDING=7"})
	if c.Listen != "127.0.0.1:8080" || c.TopicCheck != "warn" || !slices.Equal(c.PublishAuth, []string{"open"}) ||
		c.PublishRate != (Rate{}) || c.SubscribeRate != (Rate{}) || c.VerifyBudget != 0 || len(c.AllowCIDR) != 6 {
		t.Errorf("--dev gives %+v", c)
	}
	if c.LeaseMin != time.Minute || c.MaxPending != 7 || c.MaxPendingPerHost != 7 {
		t.Errorf("an explicit value lost against --dev: %v, %d, %d", c.LeaseMin, c.MaxPending, c.MaxPendingPerHost)
	}
	if from := o.Get("listen").From; from != "default of --dev" {
		t.Errorf("listen is from %q", from)
	}
	if c, _ := load(t, []string{"--dev"}, nil); c.MaxPending != 0 || c.MaxPendingPerHost != 0 || c.LeaseMin != time.Second {
		t.Errorf("--dev gives %+v", c)
	}
	if c, _ := load(t, []string{"--dev=false"}, []string{"RSHUB_DEV=true"}); c.Dev || c.Listen != ":8080" {
		t.Error("--dev=false lost against the environment")
	}
}

func TestPrecedenceAndOrigins(t *testing.T) {
	file := write(t, "rshub.yaml", `# a comment
max-body: 10MiB
verify-budget: 5
per-host: 3
require-https-for-secrets: true
topic-allow:
  - https://a.example/x,y/*
  - "https://b.example/*"
allow-cidr: 10.0.0.0/8, fd00::/8
dev: true
`)
	c, o := load(t, []string{"--max-body=1MiB", "--topic-deny", "https://a.example/1", "--topic-deny=https://a.example/2", "--per-host=1", "--per-host=2"},
		[]string{"RSHUB_CONFIG=" + file, "RSHUB_MAX_BODY=2MiB", "RSHUB_VERIFY_BUDGET=6", "PATH=/bin"})
	if c.MaxBody != 1<<20 || c.VerifyBudget != 6 || c.PerHost != 2 || !c.RequireHTTPSForSecrets || !c.Dev {
		t.Errorf("got %+v", c)
	}
	if !slices.Equal(c.TopicAllow, []string{"https://a.example/x,y/*", "https://b.example/*"}) || len(c.TopicDeny) != 2 {
		t.Errorf("patterns %q, %q", c.TopicAllow, c.TopicDeny)
	}
	if fmt.Sprint(c.AllowCIDR) != "[10.0.0.0/8 fd00::/8]" {
		t.Errorf("ranges %v", c.AllowCIDR)
	}
	for name, from := range map[string]string{
		"max-body": "--max-body", "verify-budget": "RSHUB_VERIFY_BUDGET", "require-https-for-secrets": file + ":5",
		"topic-allow": file + ":6", "listen": "default of --dev", "drain": "default", "config": "RSHUB_CONFIG",
	} {
		if got := o.Get(name).From; got != from {
			t.Errorf("%s is from %q, want %q", name, got, from)
		}
	}
}

// Each mistake says where it is, what is wrong, and what would be right.
func TestMistakes(t *testing.T) {
	type parts = []string
	for args, want := range map[string]parts{
		"--max-body=50MB":                                 {"--max-body: ", `"50MB"`, "50MiB"},
		"--lease-min=300":                                 {"--lease-min: ", "no unit"},
		"--lease-min=1500ms":                              {"whole number of seconds"},
		"--per-host=0":                                    {"--per-host", "the least is 1"},
		"--signature=md5":                                 {"--signature", "sha256"},
		"--publish-rate=600":                              {"--publish-rate", "600/m"},
		"--listen=8080":                                   {"--listen", "host:port"},
		"--public-url=hub":                                {"--public-url", "https://hub.example.org/"},
		"--public-url=https://u:pw@hub":                   {"--public-url", `"https://********@hub"`},
		"--otlp-endpoint=http://u:p%w@c":                  {"--otlp-endpoint", `"http://********@c"`},
		"--allow-host=https://hub.internal":               {"--allow-host", "hub.internal"},
		"--allow-host=hub.internal:8080":                  {"--allow-host", "without scheme and port"},
		"--allow-host=*.internal":                         {"--allow-host", "not a host name"},
		"--stream-origin=app.example":                     {"--stream-origin", "write an origin like"},
		"--stream-origin=https://app.example/page":        {"--stream-origin", "has a path"},
		"--stream=all":                                    {"--stream", "open"},
		"--topic-allow=example.org/*":                     {"--topic-allow", "https://example.org/*"},
		"--allow-cidr=169.254.169.254/32":                 {"--allow-cidr", "never called"},
		"--publish-auth=tokens":                           {"--publish-auth", "content, token, open"},
		"--publish-auth=":                                 {"--publish-auth", "names no way"},
		"--data-dir=":                                     {"--data-dir", "empty"},
		"--dev=maybe":                                     {"--dev", "neither true nor false"},
		"--lease-min=2h --lease-max=1h":                   {"lease-default is more than lease-max", "864000s (default)", "1h (--lease-max)"},
		"--lease-min=20d":                                 {"lease-min is more than lease-default"},
		"--retry-first=7h":                                {"retry-first is more than retry-max"},
		"--max-inflight-bytes=1MiB":                       {"max-body is more than max-inflight-bytes"},
		"--admin-listen=:8081":                            {"--admin-listen", "--admin-token-file"},
		"--admin-listen=10.0.0.1:1":                       {"--admin-token-file"},
		"--listen=localhost:1 --admin-listen=localhost:1": {"need different ports", "localhost:1 (--admin-listen)"},
		"--listen=:8081":                                  {"need different ports", "127.0.0.1:8081 (default)"},
		"--listen=[::]:8081":                              {"need different ports"},
		"--listen=0.0.0.0:8081":                           {"need different ports"},
		"--listen=localhost:8081":                         {"need different ports"},
		"--public-url=https://hub:99999/":                 {"--public-url", "1 to 65535"},
		"--otlp-endpoint=http://collector:0":              {"--otlp-endpoint", "1 to 65535"},
		"--egress-proxy=http://u:p@gate:65536":            {"--egress-proxy", "1 to 65535"},
		"--admin-token-file=nowhere":                      {"--admin-token-file", "nowhere"},
		"--otlp-endpoint=collector:4318":                  {"--otlp-endpoint", "http://127.0.0.1:4318"},
		"--pprof":                                         {"--pprof", "--admin-token-file"},
		"--tls-cert=cert.pem":                             {"--tls-cert", "tls-key"},
		"--tls-key=key.pem":                               {"--tls-key", "tls-cert"},
		"--admin-tls-cert=cert.pem":                       {"--admin-tls-cert", "admin-tls-key"},
		"--admin-tls-key=key.pem":                         {"--admin-tls-key", "admin-tls-cert"},
		"--ca-file=load_test.go":                          {"--ca-file", "PEM"},
		"--publishers-file=nowhere":                       {"nowhere"},
		"--config=nowhere":                                {"nowhere"},
		"--redis-url=http://h":                            {"--redis-url", "redis+cluster://"},
		"--redis-url=redis://":                            {"--redis-url", "names no host"},
		"--redis-urls=redis://h":                          {"redis-url"},
		"extra":                                           {"extra"},
		"--max-body=x --timeout=y":                        {"--max-body", "--timeout"},
	} {
		wantError(t, strings.Fields(args), nil, want...)
	}
	for env, want := range map[string]parts{
		"RSHUB_MAX_BODY=50MB":       {"RSHUB_MAX_BODY: ", `"50MB"`},
		"RSHUB_PUBLISH_AUT=content": {"RSHUB_PUBLISH_AUT", "did you mean RSHUB_PUBLISH_AUTH?"},
		"RSHUB_XYZZY=1":             {"RSHUB_XYZZY: there is no such setting"},
		"RSHUB_=1":                  {"RSHUB_: "},
		"RSHUB_DRAIN=":              {"RSHUB_DRAIN", "not a duration"},
		"RSHUB_PUBLISH_AUTH=":       {"RSHUB_PUBLISH_AUTH", "names no way"},
	} {
		wantError(t, nil, []string{env}, want...)
	}
}

// Listeners at one port are fine if each has an address of its own.
func TestSameAddress(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"127.0.0.1:8081", "127.0.0.1:8081", true},
		{"127.0.0.1:8081", "localhost:8081", true},
		{":8081", "127.0.0.1:8081", true},
		{"[::1]:8081", "[::]:8081", true},
		{"0.0.0.0:8081", ":8081", true},
		{":8080", "127.0.0.1:8081", false},
		{":0", "127.0.0.1:0", false},
		{"10.0.0.1:8081", "127.0.0.1:8081", false},
		{"[::1]:8081", "127.0.0.1:8081", false},
	} {
		if SameAddress(tc.a, tc.b) != tc.same || SameAddress(tc.b, tc.a) != tc.same {
			t.Errorf("%s and %s are the same: %v, want %v", tc.a, tc.b, !tc.same, tc.same)
		}
	}
}

func TestMistakesInTheFile(t *testing.T) {
	for content, want := range map[string][]string{
		"listen: :1\nmax_body: 1MiB\n":            {":2: ", `"max_body"`, "did you mean max-body?"},
		"xyzzy: 1\n":                              {":1: ", "no setting \"xyzzy\""},
		"max-body: 50MB\n":                        {":1: max-body: ", "50MiB"},
		"max-body: [1MiB]\n":                      {"one value"},
		"max-body: []\n":                          {"one value"},
		"max-body:\n":                             {"no value"},
		"topic-allow: [~]\n":                      {"plain values"},
		"topic-allow: {a: b}\n":                   {"keys below it"},
		"per-host: 1\n\nper-host: 2\n":            {":3: ", "line 1"},
		"- a\n":                                   {"keys and values"},
		"a: b: c\n":                               {"not YAML"},
		"per-host: 1\n---\nper-host: 2\n":         {"more than one"},
		"config: other.yaml\n":                    {"no setting \"config\""},
		"dev: yes\n":                              {":1: dev: ", "neither true nor false"},
		"x: &a [*a]\ntopic-allow: *a\n":           {"plain values"},
		"per-host: 0\ntimeout: 1\nlisten: here\n": {":1: ", ":2: ", ":3: "},
	} {
		file := write(t, "rshub.yaml", content)
		wantError(t, []string{"--config", file}, nil, append(want, file)...)
	}
}

func TestEmptyFileSetsNothing(t *testing.T) {
	for _, content := range []string{"", "# nothing\n", "---\n", "~\n", "{}\n"} {
		load(t, []string{"--config", write(t, "rshub.yaml", content)}, nil)
	}
}

// Kubernetes puts such variables into the pods beside a Service named rshub or
// rshub-admin.
func TestServiceVariablesAreNotSettings(t *testing.T) {
	load(t, nil, []string{
		"RSHUB_ADMIN_URL=http://h", "RSHUB_SERVICE_HOST=10.0.0.1", "RSHUB_SERVICE_PORT=80", "RSHUB_SERVICE_PORT_HTTP=80",
		"RSHUB_PORT=tcp://10.0.0.1:80", "RSHUB_PORT_80_TCP=tcp://10.0.0.1:80", "RSHUB_PORT_80_TCP_ADDR=10.0.0.1",
		"RSHUB_ADMIN_SERVICE_HOST=10.0.0.1", "RSHUB_ADMIN_PORT_8081_TCP_PROTO=tcp",
	})
	for _, s := range settings(new(Config)) {
		if notOurs.MatchString(s.env(envPrefix)) {
			t.Errorf("%s would be ignored", s.env(envPrefix))
		}
	}
}

func TestAdminToken(t *testing.T) {
	const token = "s3cret-of-16-chs"
	file := write(t, "token", token+"\n")
	c, _ := load(t, []string{"--admin-listen=:8081", "--admin-token-file", file, "--public-url=https://example.org/"}, nil)
	if string(c.AdminToken) != token {
		t.Errorf("token %q", string(c.AdminToken))
	}
	load(t, []string{"--pprof", "--admin-token-file", file}, nil)
	if shown := fmt.Sprintf("%v %+v %#v %s", c, c, c, c.AdminToken); strings.Contains(shown, token) {
		t.Errorf("the token shows: %s", shown)
	}
	for _, content := range []string{"", "\n", token + "\n" + token + "\n", token + "\x00b", token[1:], " " + token[1:] + "\n", "fünfzehn Zeich."} {
		wantError(t, []string{"--admin-token-file", write(t, "token", content)}, nil, "--admin-token-file")
	}
	_, _, err := Load([]string{"--admin-token-file", write(t, "token", token[1:])}, nil)
	if err == nil || strings.Contains(err.Error(), token[1:]) || !strings.Contains(err.Error(), "15 characters") || !strings.Contains(err.Error(), "openssl rand") {
		t.Errorf("a short token: %v", err)
	}
	reader := write(t, "reader", "another-of-16-chs\n")
	if c, _ := load(t, []string{"--admin-token-file", file, "--admin-readonly-token-file", reader}, nil); string(c.ReaderToken) != "another-of-16-chs" {
		t.Errorf("read-only token %q", string(c.ReaderToken))
	}
	wantError(t, []string{"--admin-readonly-token-file", reader}, nil, "--admin-readonly-token-file", "--admin-token-file")
	wantError(t, []string{"--admin-token-file", file, "--admin-readonly-token-file", file}, nil, "--admin-readonly-token-file", "make another one")
	wantError(t, []string{"--admin-token-file", file, "--admin-readonly-token-file", write(t, "short", "short\n")}, nil, "--admin-readonly-token-file", "5 characters")
	for mode, exposed := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o660: false, 0o644: true, 0o602: true} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		c, _ := load(t, []string{"--admin-token-file", file, "--public-url=https://example.org/"}, nil)
		if got := strings.Join(c.Warnings(), "\n"); strings.Contains(got, "chmod o= "+file) != exposed {
			t.Errorf("%o: %q", mode, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	for args, want := range map[string]string{
		"--dev":                             "--dev: anyone",
		"--publish-auth=open":               "anyone may publish",
		"--publish-auth=token":              "nobody can publish",
		"--listen=:1":                       "public-url",
		"--retention-bytes=1MiB":            "retention-bytes",
		"--public-url=https://example.org/": "",
		"--listen=[::1]:1":                  "",
		"--verify-budget=0":                 "verify-budget is 0",
		"--dev --verify-budget=0":           "--dev: anyone",
		"--trusted-proxy=10.0.0.0/8,0.0.0.0/0 --public-url=https://example.org/": "trusted-proxy includes every address",
		"--trusted-proxy=::/0": "trusted-proxy includes every address",
		"--trusted-proxy=10.0.0.0/8,::1 --allow-cidr=10.0.0.0/8 --public-url=https://example.org/": "",
		"--allow-cidr=0.0.0.0/0":                                     "allow-cidr includes every address",
		"--dev --allow-cidr=::/0":                                    "allow-cidr includes every address",
		"--allow-cidr=1.2.3.4/0":                                     "allow-cidr includes every address",
		"--public-url=http://example.org/ --tls-cert=c --tls-key=k":  "only https",
		"--public-url=https://example.org/ --tls-cert=c --tls-key=k": "",
	} {
		c, _ := load(t, strings.Fields(args), nil)
		got := strings.Join(c.Warnings(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// What YAML writes is read as the same settings.
func TestOriginsAsYAML(t *testing.T) {
	args := []string{
		"--dev", "--max-body=1MiB", "--per-host=3", "--topic-allow=https://a.example/x,y/*", "--topic-allow=*", "--log-format=",
		"--node-id=null", "--public-url=https://hub.example.org/~x:y", "--publish-auth=open,token", "--listen=:9999",
	}
	want, o := load(t, args, nil)
	file, err := o.YAML()
	if err != nil {
		t.Fatal(err)
	}
	got, _ := load(t, []string{"--config", write(t, "rshub.yaml", string(file))}, nil)
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Errorf("from\n%s\n%s", file, d)
	}
	_, o = load(t, nil, nil)
	if file, err := o.YAML(); err != nil || !strings.HasPrefix(string(file), "#") {
		t.Errorf("%q, %v", file, err)
	}
}

func TestNearest(t *testing.T) {
	var names []string
	for _, s := range settings(new(Config)) {
		names = append(names, s.name)
	}
	for name, want := range map[string]string{
		"max_body": "max-body", "MAX-BODY": "max-body", "maxbody": "max-body", "lease-mi": "lease-min", "continuty": "continuity",
		"retention-size": "retention-age", "xyzzy": "", "": "",
	} {
		if got := nearest.Of(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func FuzzSettingsFile(f *testing.F) {
	for _, s := range []string{
		"max-body: 10MiB\ntopic-allow: [https://a.example/*]\n", "dev: true", "a: &a [*a]", "{[a]: b}", "? {a: b}\n: c", "<<: {a: b}", "--- |\n x\n", "%YAML 9\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Config
		table := settings(&c)
		l, errs := parseFile("f", data, table)
		for _, err := range errs {
			if err != nil && !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("a message without its place: %v", err)
			}
		}
		for i := range table {
			o, err := table[i].apply(l[table[i].name], false)
			if err == nil && o.From == "" {
				t.Errorf("%s is from nowhere", o.Name)
			}
		}
	})
}

func FuzzPublishersFile(f *testing.F) {
	f.Add([]byte("publishers:\n- {name: a, topics: ['*'], token_sha256: [" + strings.Repeat("0", 64) + "]}\n"))
	f.Add([]byte("publishers: [{name: a, hmac_secret_file: /dev/null}]"))
	f.Add([]byte("publishers: [1, [], {}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "hmac_secret_file") {
			t.Skip("reads files")
		}
		list, err := parsePublishers("f", data)
		for _, p := range list {
			if err == nil && (p.Name == "" || len(p.Topics) == 0 || len(p.TokenSHA256) == 0) {
				t.Errorf("publisher %+v was accepted", p)
			}
		}
	})
}

// A header that says who somebody is counts only where it is said who may send it.
func TestPeople(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-that-is-long-enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := []string{"--admin-token-file=" + token, "--admin-auth-header=x-forwarded-user", "--admin-auth-proxy=10.0.0.1"}
	c, _, err := Load(append(whole, "--admin-auth-role-header=X-Role"), nil)
	if err != nil || c.AdminAuthHeader != "X-Forwarded-User" || c.AdminAuthRoleHeader != "X-Role" || len(c.AdminAuthProxy) != 1 {
		t.Errorf("%q %q %v: %v", c.AdminAuthHeader, c.AdminAuthRoleHeader, c.AdminAuthProxy, err)
	}
	for want, args := range map[string][]string{
		"name the proxies":                      whole[:2],
		"needs a token":                         whole[1:],
		"no effect without --admin-auth-header": {whole[0], whole[2]},
		"every address lets anyone forge":       {whole[0], whole[1], "--admin-auth-proxy=0.0.0.0/0"},
		"for another purpose":                   {whole[0], whole[2], "--admin-auth-header=cookie"},
		"not the name of a header":              {whole[0], whole[2], "--admin-auth-header=X User"},
	} {
		if _, _, err := Load(args, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
