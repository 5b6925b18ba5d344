package redisstore

import (
	"os"
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

// The whole suite, over TLS and as a user who may do no more than the documents
// say.
func TestUserWithFewRightsPassesTheSuiteOverTLS(t *testing.T) {
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
		for _, s := range servers {
			s.Do(t, "ACL", "SETUSER", "tester", "on", ">test", "~*", "&*", "+@all")
		}
		url += "?ca-file=" + ca
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Open(t.Context(), Options{URL: url, Prefix: "other"}); err == nil {
				t.Errorf("a prefix that the user may not use is good")
			}
			scheme, rest, _ := strings.Cut(url, "://")
			_, rest, _ = strings.Cut(rest, "@")
			storetest.Run(t, func(t *testing.T) *storetest.Harness {
				return harnessOf(t, url, scheme+"://tester:test@"+rest, nil)
			})
		})
	}
}
