package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// What is said of a server, by what it says of itself.
func TestJudge(t *testing.T) {
	good := func() server {
		return server{
			addr:   "127.0.0.1:6379",
			info:   map[string]string{"redis_version": "7.0.15", "maxmemory": "1000000", "maxmemory_policy": "noeviction", "aof_enabled": "1"},
			config: map[string]string{"appendfsync": "always", "save": ""},
		}
	}
	for name, tc := range map[string]struct {
		change       func(*server)
		warn, refuse string // part of the sentence; empty: there is none
	}{
		"as it should be":           {func(*server) {}, "", ""},
		"newer":                     {func(s *server) { s.info["redis_version"] = "8.2.1" }, "", ""},
		"older":                     {func(s *server) { s.info["redis_version"] = "6.2.7" }, "", "upgrade it"},
		"no version":                {func(s *server) { delete(s.info, "redis_version") }, "", "upgrade it"},
		"evicts":                    {func(s *server) { s.info["maxmemory_policy"] = "allkeys-lru" }, "", "set maxmemory-policy noeviction"},
		"evicts what may expire":    {func(s *server) { s.info["maxmemory_policy"] = "volatile-ttl" }, "", "set maxmemory-policy noeviction"},
		"evicts nothing yet":        {func(s *server) { s.info["maxmemory_policy"], s.info["maxmemory"] = "allkeys-lru", "0" }, "set maxmemory-policy noeviction", ""},
		"hides its policy":          {func(s *server) { delete(s.info, "maxmemory_policy") }, "make sure that it is noeviction", ""},
		"unlimited":                 {func(s *server) { s.info["maxmemory"] = "0" }, "set maxmemory to", ""},
		"synced every second":       {func(s *server) { s.config["appendfsync"] = "everysec" }, "two seconds", ""},
		"never synced":              {func(s *server) { s.config["appendfsync"] = "no" }, "half a minute", ""},
		"hides appendfsync":         {func(s *server) { s.config = nil }, "+config|get", ""},
		"snapshots":                 {func(s *server) { s.info["aof_enabled"], s.config["save"] = "0", "3600 1" }, "only snapshots", ""},
		"hides what it keeps":       {func(s *server) { s.info["aof_enabled"], s.config = "0", nil }, "set appendonly yes", ""},
		"keeps nothing":             {func(s *server) { s.info["aof_enabled"] = "0" }, "stores nothing on disk", ""},
		"alone beside a new master": {func(s *server) { s.info["connected_slaves"], s.config["min-replicas-to-write"] = "2", "0" }, "set min-replicas-to-write 1", ""},
		"a replica has to follow":   {func(s *server) { s.info["connected_slaves"], s.config["min-replicas-to-write"] = "2", "1" }, "", ""},
		"has no replicas":           {func(s *server) { s.info["connected_slaves"], s.config["min-replicas-to-write"] = "0", "0" }, "", ""},
		"a replica with writes":     {func(s *server) { s.info["role"], s.info["slave_read_only"] = "slave", "0" }, "", "name the master"},
		"a replica in a failover":   {func(s *server) { s.info["role"], s.info["slave_read_only"] = "slave", "1" }, "", ""},
		"reports nothing":           {func(s *server) { s.info = nil }, "+info", ""},
		"a clock that is behind":    {func(s *server) { s.ahead = -6 * time.Second }, "NTP", ""},
		"a clock that is far ahead": {func(s *server) { s.ahead = 61 * time.Second }, "", "NTP"},
		"a node of a Cluster":       {func(s *server) { s.info["redis_mode"] = "cluster" }, "", "redis+cluster://"},
		"used as such a node":       {func(s *server) { s.info["redis_mode"], s.cluster = "cluster", true }, "", ""},
		"a clock as good as any":    {func(s *server) { s.ahead = -5 * time.Second }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			tc.change(&s)
			warnings, refuse := s.findings()
			text := strings.Join(warnings, "\n")
			if (text != "") != (tc.warn != "") || !strings.Contains(text, tc.warn) || strings.Contains(text, "\n") {
				t.Errorf("warns %q, want %q", text, tc.warn)
			}
			if (refuse != nil) != (tc.refuse != "") || refuse != nil && !strings.Contains(refuse.Error(), tc.refuse) {
				t.Errorf("refuses %v, want %q", refuse, tc.refuse)
			}
		})
	}
}

// A node of a Cluster is refused where it is named as a server of its own, with what to write.
func TestNodeOfACluster(t *testing.T) {
	nodes := redistest.Cluster(t, redistest.Shared())
	url := strings.Replace(nodes.URL(), "redis+cluster", "redis", 1)
	url, _, _ = strings.Cut(url, ",") // the first node
	if _, err := openPinned(t, url, "node-"+uuid.NewString(), "", false); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "redis+cluster://") {
		t.Error(err)
	}
}

// A Sentinel is refused where it is named as a server, with what to write.
func TestSentinelNamedAsServer(t *testing.T) {
	sentinels := redistest.Sentinel(t, redistest.Shared())
	url := strings.Replace(sentinels.URL(), "redis+sentinel", "redis", 1)
	url, _, _ = strings.Cut(url, ",") // the first Sentinel
	if _, err := openPinned(t, url, "sentinel-"+uuid.NewString(), "", false); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "redis+sentinel://") {
		t.Error(err)
	}
}

// hubsOn opens a store n times, as so many hubs do.
func hubsOn(t *testing.T, n int) (stores []*Store) {
	t.Helper()
	url, prefix := redistest.Standalone(t, redistest.Shared()).URL(), "hubs-"+uuid.NewString()
	for range n {
		s, err := openPinned(t, url, prefix, "", false)
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	return stores
}

// openPinned opens a store, with or without an id that it has to have.
func openPinned(t *testing.T, url, prefix, id string, accept bool) (*Store, error) {
	t.Helper()
	s, err := Open(context.WithoutCancel(t.Context()), Options{URL: url, Prefix: prefix, InstallID: id, AcceptEmpty: accept, Timeout: patience})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// The id of a store is pinned: another one, or none, is refused, unless that is
// said to be right.
func TestInstallID(t *testing.T) {
	url, prefix, pinned := redistest.Standalone(t, redistest.Shared()).URL(), "pin-"+uuid.NewString(), uuid.NewString()
	if _, err := openPinned(t, url, prefix, pinned, false); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--accept-empty-store") {
		t.Fatalf("an empty Redis: %v", err)
	}
	s, err := openPinned(t, url, prefix, pinned, true)
	if err != nil || s.ID() != pinned || !s.Found.New {
		t.Fatalf("accepted: %v", err)
	}
	s, err = openPinned(t, url, prefix, pinned, false)
	if err != nil || s.ID() != pinned || s.Found.New {
		t.Fatalf("the same again: %v", err)
	}
	other := uuid.NewString()
	if _, err := openPinned(t, url, prefix, other, false); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), pinned) || !strings.Contains(err.Error(), other) {
		t.Fatalf("another id: %v", err)
	}
	s, err = openPinned(t, url, prefix, other, true)
	if err != nil || s.ID() != pinned || !strings.Contains(strings.Join(s.Found.Warnings, "\n"), "change --install-id") {
		t.Fatalf("another id, accepted: %v", err)
	}
	if s, err = openPinned(t, url, "pin-"+uuid.NewString(), "", false); err != nil || !s.Found.New || s.ID() == "" {
		t.Fatalf("not pinned: %v", err)
	}
}

// A Redis with which a hub would lose what it stores is refused, at the start and
// later, until it is mended.
func TestUnsafeRedis(t *testing.T) {
	server := redistest.Standalone(t)
	server.Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	if _, err := openPinned(t, server.URL(), "", "", false); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "noeviction") {
		t.Fatalf("at the start: %v", err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	s, err := openPinned(t, server.URL(), "", "", false)
	if err != nil || len(s.Found.Warnings) > 0 {
		t.Fatalf("%v %q", err, s.Found.Warnings)
	}
	look := func() {
		t.Helper()
		if _, err := s.conn.inspect(t.Context()); err == nil || errors.Is(err, ErrRefused) {
			s.checks.decide(err)
		} else {
			t.Fatal(err)
		}
	}
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	look()
	if err := s.checks.writable(); !errors.Is(err, ErrRefused) || s.Ready(t.Context()) == nil {
		t.Errorf("later: %v", err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	look()
	if err := errors.Join(s.checks.writable(), s.Ready(t.Context())); err != nil {
		t.Errorf("mended: %v", err)
	}
}

// A store that is emptied while a hub works on it accepts nothing any more, whatever
// comes after that, until it is opened again.
func TestEmptied(t *testing.T) {
	for name, empty := range map[string]func(s *Store, server *redistest.Server, t *testing.T){
		"flushed": func(_ *Store, server *redistest.Server, t *testing.T) { server.Do(t, "FLUSHALL") },
		"replaced": func(s *Store, server *redistest.Server, t *testing.T) {
			server.Do(t, "HSET", s.conn.key.meta(nameStore), "id", "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			told := make(chan error, 8)
			s, err := Open(context.WithoutCancel(t.Context()), Options{URL: server.URL(), Refusing: func(err error) { told <- err }, Timeout: patience})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if err := s.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			empty(s, server, t)
			if err := <-told; !errors.Is(err, errEmptied) {
				t.Fatal(err)
			}
			if err := s.Ready(t.Context()); !errors.Is(err, errEmptied) {
				t.Errorf("ready: %v", err)
			}
			_, err = s.Append(t.Context(), time.Now(), "https://source.example/", journal.Entry{Body: []byte("x")}, "")
			if !errors.Is(err, errEmptied) {
				t.Errorf("append: %v", err)
			}
			// It makes way for a hub that starts later, and reports nothing more.
			all := []int{0, 9}
			got, err := s.Leases.Acquire(t.Context(), "a", all, time.Minute)
			if !errors.Is(err, errEmptied) || len(got) > 0 {
				t.Errorf("leases on %v: %v", got, err)
			}
			if _, _, err = s.Leases.Renew(t.Context(), "a", all, time.Minute); !errors.Is(err, errEmptied) {
				t.Errorf("renewed leases: %v", err)
			}
			if _, err = s.Leases.Heartbeat(t.Context(), cluster.Node{ID: "a"}, time.Minute); !errors.Is(err, errEmptied) {
				t.Errorf("heartbeat: %v", err)
			}
			if _, err = s.Leases.Heartbeat(t.Context(), cluster.Node{ID: "a"}, 0); err != nil {
				t.Errorf("farewell: %v", err)
			}
			server.Do(t, "HSET", s.conn.key.meta(nameStore), "schema", "1", "id", s.ID())
			s.checks.decide(nil)
			if err := s.Ready(t.Context()); !errors.Is(err, errEmptied) {
				t.Errorf("with the id back: %v", err)
			}
			if len(told) > 0 {
				t.Errorf("told again: %v", <-told)
			}
		})
	}
}

// A publish right after the store was emptied is not accepted, even if no hub has noticed
// yet: an Append to a head that is gone fails, and an Append to a topic without a head asks
// first.
func TestNothingIsAppendedToAnEmptiedStore(t *testing.T) {
	server := redistest.Standalone(t)
	for range 20 {
		s, err := Open(t.Context(), Options{URL: server.URL(), Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, s, topicName, 1)
		server.Do(t, "FLUSHALL")
		for _, topic := range []string{topicName, topicName, topicName + "new"} {
			if e, err := add(t.Context(), s, topic, "x"); err == nil {
				t.Errorf("%s got notification %v", topic, e.ID)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What an ACL forbids to ask is a warning; what it allows is enough to work with.
func TestForbiddenChecks(t *testing.T) {
	server := redistest.Standalone(t, redistest.ACL("hub", "of the hub", "~rshub:* &rshub:* +@all -info -config"))
	s, err := openPinned(t, server.URL(), "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(s.Found.Warnings, "\n")
	if !strings.Contains(text, "+info") {
		t.Errorf("%q", text)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// Where the store is is shown without passwords.
func TestLocation(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://:secret@h":                                            "redis://h:6379",
		"rediss://u:secret@h:1/3?ca-file=x":                            "rediss://h:1/3",
		"redis+cluster://u:secret@h:1,[::1]:2":                         "redis+cluster://h:1,[::1]:2",
		"redis+sentinel://u:secret@h:1,i:2/m?sentinel-password=secret": "redis+sentinel://h:1,i:2/m",
	} {
		target, err := parseURL(raw)
		if err != nil || target.location() != want {
			t.Errorf("%s: %s %v", raw, target.location(), err)
		}
	}
}
