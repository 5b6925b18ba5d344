package redisstore

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/test/redistest"
)

// aclRules are what the user of a hub needs to be allowed in Redis, with the
// prefix rshub. doc.go and the users' documents say so too.
const aclRules = "~rshub:* &rshub:* -@all +@read +@write +@connection +@transaction +@pubsub +@scripting -@dangerous +info +time +command +cluster|slots"

func TestDocumentsTellTheRulesOfTheUser(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.ReplaceAll(string(text), "//", " "))
	if !strings.Contains(strings.Join(words, " "), aclRules) {
		t.Errorf("doc.go does not have %q", aclRules)
	}
}

// ofConnections are the checks that make each kind of connection that a store has: for
// commands and scripts, in groups, for hints, and all of them again after a restart.
var ofConnections = []string{
	"AppendKeepsWhatItIsGiven", "RacingAppends", "BodiesOfAnySize", "CommitsInOneGroup", "UpdatesAreOneStepEach",
	"HintsComeAtOnceAndEnd", "RestartKeepsTheJournal", "RestartKeepsTheSubscriptions", "SealKeyIsChanged",
}

// TLS, with an ACL that admits only the user of a hub: the tests that make connections.
// TestStorePassesTheSuite shows that this user has all the rights that a store needs.
func TestUserWithFewRightsOverTLS(t *testing.T) {
	for name, start := range map[string]func(opts ...redistest.Option) (url, ca string, servers []*redistest.Server){
		"standalone": func(opts ...redistest.Option) (string, string, []*redistest.Server) {
			s := redistest.Standalone(t, opts...)
			return s.URL(), s.CAFile, s.Servers()
		},
		"sentinel": func(opts ...redistest.Option) (string, string, []*redistest.Server) {
			s := redistest.Sentinel(t, opts...)
			return s.URL(), s.CAFile, s.Servers()
		},
		"cluster": func(opts ...redistest.Option) (string, string, []*redistest.Server) {
			s := redistest.Cluster(t, opts...)
			return s.URL(), s.CAFile, s.Servers()
		},
	} {
		url, ca, servers := start(redistest.TLS(), redistest.ACL("hub", "pass word@/?", aclRules), redistest.Config("tls-auth-clients", "no"), redistest.Steady())
		allow(t, servers, "tester", "test", "~* &* +@all")
		url += "?ca-file=" + ca
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Open(t.Context(), Options{URL: url, Prefix: "other"}); err == nil {
				t.Errorf("a prefix that the user may not use is good")
			}
			open := func(t *testing.T) *storetest.Harness {
				return harnessOf(t, url, as(url, "tester", "test"), nil)
			}
			ran := 0
			for _, c := range storetest.Checks() {
				if slices.Contains(ofConnections, c.Name) {
					ran++
					t.Run(c.Name, func(t *testing.T) {
						t.Parallel()
						c.Run(t, open(t))
					})
				}
			}
			if ran != len(ofConnections) {
				t.Errorf("%d of %d checks are in the suite", ran, len(ofConnections))
			}
		})
	}
}

// Without its channels a hub works, and warns that hints do not reach it.
func TestUserWithoutChannels(t *testing.T) {
	for name, tc := range map[string]struct {
		rules string
		warns bool
	}{
		"all":           {aclRules, false},
		"no channel":    {strings.Replace(aclRules, " &rshub:*", "", 1), true},
		"no SUBSCRIBE":  {aclRules + " -subscribe -ssubscribe", true},
		"no PUBLISH":    {aclRules + " -publish -spublish", true},
		"other channel": {strings.Replace(aclRules, "&rshub:*", "&other:*", 1), true},
	} {
		server, nodes := redistest.Standalone(t, redistest.Shared()), redistest.Cluster(t, redistest.Shared())
		allow(t, append(server.Servers(), nodes.Servers()...), "deaf", "password", tc.rules)
		for _, url := range []string{server.URL(), nodes.URL()} {
			s, err := openPinned(t, as(url, "deaf", "password"), "rshub:"+freshPrefix(), "", false)
			if err != nil {
				t.Fatal(err)
			}
			if warns := strings.Contains(strings.Join(s.Found.Warnings, "\n"), "passes no hints on"); warns != tc.warns {
				t.Errorf("%s: warns %v of %s", name, warns, url)
			}
		}
	}
}

// allow has servers know a user.
func allow(t testing.TB, servers []*redistest.Server, user, password, rules string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", user, "reset", "on", ">" + password}
	for rule := range strings.FieldsSeq(rules) {
		args = append(args, rule)
	}
	for _, s := range servers {
		s.Do(t, args...)
	}
}

// as is a Redis URL with another user.
func as(url, user, password string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	if _, after, ok := strings.Cut(rest, "@"); ok {
		rest = after
	}
	return scheme + "://" + user + ":" + password + "@" + rest
}
