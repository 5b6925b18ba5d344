package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// disabledAlone and disabledTogether are commands that providers of Redis disable. A store
// needs none of them. The start or the client calls those of the first list, so the test
// disables each alone. Nothing calls those of the second.
var (
	disabledAlone    = []string{"CONFIG", "INFO", "CLIENT", "COMMAND", "HELLO", "CLUSTER", "SCRIPT", "SUBSCRIBE"}
	disabledTogether = []string{
		"ACL", "BGREWRITEAOF", "BGSAVE", "DEBUG", "FAILOVER", "FLUSHALL", "FLUSHDB", "KEYS", "LASTSAVE", "LATENCY", "MEMORY",
		"MIGRATE", "MODULE", "MONITOR", "MOVE", "OBJECT", "PSYNC", "RENAME", "REPLCONF", "REPLICAOF", "RESTORE", "ROLE", "SAVE", "SCAN",
		"SHUTDOWN", "SLAVEOF", "SLOWLOG", "SORT", "SWAPDB", "SYNC", "WAIT",
	}
)

// without disables commands of a server.
func without(names ...string) (opts []redistest.Option) {
	for _, name := range names {
		opts = append(opts, redistest.Config("rename-command", name+` ""`))
	}
	return opts
}

// worksOn opens a store, and appends and reads. It returns the warnings.
func worksOn(t *testing.T, url string) string {
	t.Helper()
	s, err := Open(context.WithoutCancel(t.Context()), Options{URL: url, Prefix: freshPrefix(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	const topic = "https://source.example/changes/"
	head, err := s.Head(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, err = s.Append(t.Context(), time.Now(), topic, journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", Body: []byte("x"), Size: 1}, head.Version)
		if err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		t.Fatalf("appending: %v", err)
	}
	if entries, err := s.Read(t.Context(), topic, journal.Anchor{}, 10, 1<<20); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	s.memory.look(t.Context())
	s.reconciler.noticeHistories(t.Context())
	if _, err := s.conn.inspect(t.Context()); err != nil {
		t.Errorf("looking again: %v", err)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	return strings.Join(s.Found.Warnings, "\n")
}

// A store works on a Redis without the commands that providers disable, and reports what it
// could not check.
func TestCommandsThatProvidersDisable(t *testing.T) {
	expected := map[string]string{"CONFIG": "does not answer CONFIG GET", "INFO": "does not answer INFO"}
	for _, name := range append([]string{"all"}, disabledAlone...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names := []string{name}
			if name == "all" {
				names = append(append([]string{}, disabledAlone...), disabledTogether...)
			}
			server := redistest.Standalone(t, without(names...)...)
			warnings := worksOn(t, server.URL())
			for of, text := range expected {
				want := of == name || of == "INFO" && name == "all"
				if strings.Contains(warnings, text) != want {
					t.Errorf("the warnings without %s are %q", name, warnings)
				}
			}
		})
	}
}

// The same, if an ACL forbids them.
func TestCommandsThatAnACLTakesAway(t *testing.T) {
	rules := "~* &* +@all"
	for _, name := range append(append([]string{}, disabledAlone...), disabledTogether...) {
		if name != "HELLO" { // everybody may say it who gives the password
			rules += " -" + strings.ToLower(name)
		}
	}
	server := redistest.Standalone(t, redistest.ACL("hub", "password", rules))
	if warnings := worksOn(t, server.URL()); !strings.Contains(warnings, "does not answer INFO") {
		t.Errorf("the warnings are %q", warnings)
	}
}

// What a hub cannot do without is refused at the start, by its name.
func TestCommandsThatAreNeeded(t *testing.T) {
	for _, name := range []string{"TIME", "EVALSHA", "XADD", "HSET", "ZADD", "LTRIM"} {
		for how, opt := range map[string][]redistest.Option{
			"renamed": without(name),
			"ACL":     {redistest.ACL("hub", "password", "~* &* +@all -"+strings.ToLower(name))},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				server := redistest.Standalone(t, opt...)
				s, err := Open(t.Context(), Options{URL: server.URL(), Prefix: freshPrefix(), Timeout: patience})
				if err == nil {
					_ = s.Close()
				}
				if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), name) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// Servers and providers say in different words that a command is unavailable.
func TestForbidden(t *testing.T) {
	for answer, want := range map[string]bool{
		"ERR unknown command 'CONFIG', with args beginning with: 'GET' 'save'": true,
		"unknown command 'CONFIG'":                                                         true,
		"ERR Unknown subcommand or wrong number of arguments for 'GET'":                    true,
		"NOPERM this user has no permissions to run the 'config|get' command":              true,
		"ERR Command is not available: 'CONFIG'":                                           true,
		"ERR command not allowed":                                                          true,
		"ERR Unsupported CONFIG parameter: save":                                           true,
		"ERR Unknown Redis command called from script script: 1":                           true,
		"ERR The user executing the script can't run this command or subcommand script: 1": true,
		"LOADING Redis is loading the dataset in memory":                                   false,
		"NOAUTH Authentication required.":                                                  false,
		"OOM command not allowed when used memory > 'maxmemory'.":                          false,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to":  false,
		"ERR max number of clients reached":                                                false,
	} {
		if got := isForbidden(answer); got != want {
			t.Errorf("%q: %v", answer, got)
		}
	}
}
