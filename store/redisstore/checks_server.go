package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is what a hub has to know about a Redis server.
type server struct {
	addr   string
	info   map[string]string // of INFO; empty: the ACL forbids it
	config map[string]string // of CONFIG GET; without the settings that it does not answer
	ahead  time.Duration     // its clock before this hub's
	// cluster: the hub uses it as a node of a Cluster.
	cluster bool
}

// examine asks a server. It leaves out what an ACL forbids.
func examine(ctx context.Context, c redis.Cmdable, addr string) (server, error) {
	s := server{addr: addr, config: map[string]string{}}
	info, err := c.Info(ctx).Result()
	if err = unlessForbidden(err); err != nil {
		return s, err
	}
	s.info = parseInfo(info)
	for _, name := range []string{"appendfsync", "save", "min-replicas-to-write"} {
		value, err := c.ConfigGet(ctx, name).Result()
		if err = unlessForbidden(err); err != nil {
			return s, err
		}
		maps.Copy(s.config, value)
	}
	before := time.Now()
	at, err := c.Time(ctx).Result()
	took := time.Since(before)
	if err != nil {
		return s, unlessForbidden(err) // then needs refuses it
	}
	s.ahead = at.Sub(before.Add(took / 2))
	return s, nil
}

// parseInfo reads the answer of INFO.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// unlessForbidden returns err, or nil if it says that an ACL forbids the command.
func unlessForbidden(err error) error {
	if forbidden(err) {
		return nil
	}
	return err
}

// leastVersion is the oldest Redis with the scripts and streams that this package needs.
const leastVersion = 7

// findings returns what an operator should know about a server, and why no hub may work
// on it.
func (s *server) findings() (warnings []string, refuse error) {
	warn := func(format string, args ...any) {
		warnings = append(warnings, "the Redis at "+s.addr+" "+fmt.Sprintf(format, args...))
	}
	no := func(format string, args ...any) {
		refuse = errors.Join(refuse, fmt.Errorf("the Redis at %s %s", s.addr, fmt.Sprintf(format, args...)))
	}
	if len(s.info) == 0 {
		warn("does not answer INFO, so the hub cannot check version, memory and persistence, and may not notice what a restart or a failover loses: allow it (ACL: +info), or make sure that maxmemory-policy is noeviction and appendonly is yes")
	} else {
		major, _, _ := strings.Cut(s.info["redis_version"], ".")
		if n, err := strconv.Atoi(major); err != nil || n < leastVersion {
			no("has the version %q, and the hub needs %d or later: upgrade it", s.info["redis_version"], leastVersion)
		}
		if s.info["redis_mode"] == "cluster" && !s.cluster {
			no("is a node of a Cluster, and some steps of the hub need keys of several slots at once there: begin the address with redis+cluster:// (rediss+cluster:// for TLS), or turn cluster-enabled off")
		}
		if s.info["redis_mode"] == "sentinel" {
			no("is a Sentinel: begin the address with redis+sentinel:// (rediss+sentinel:// for TLS), and end it with the name of the master")
			return nil, refuse
		}
		s.checkMemory(warn, no)
		s.checkPersistence(warn)
		s.checkReplicas(warn, no)
	}
	switch off := s.ahead.Abs(); {
	case off > clockRefuse:
		no("has a clock that differs from this machine's by %s, and leases need clocks that differ by %s at most: set both by NTP", off.Round(time.Second), clockRefuse)
	case off > clockWarn:
		warn("has a clock that differs from this machine's by %s: set both by NTP", off.Round(100*time.Millisecond))
	}
	return warnings, refuse
}

type say = func(format string, args ...any)

func (s *server) checkMemory(warn, no say) {
	policy, limited := s.info["maxmemory_policy"], s.info["maxmemory"] != "0"
	switch {
	case policy == "":
		warn("does not report its maxmemory-policy: make sure that it is noeviction, or Redis deletes notifications and subscriptions when it is full")
	case policy != "noeviction" && limited:
		no("has maxmemory-policy %s and would delete notifications and subscriptions when it is full: set maxmemory-policy noeviction", policy)
	case policy != "noeviction":
		warn("has maxmemory-policy %s, which deletes notifications and subscriptions once a maxmemory is set and reached: set maxmemory-policy noeviction, and a maxmemory", policy)
	case !limited:
		warn("has no maxmemory, so the hub cannot refuse publishes before the memory is used up: set maxmemory to what its machine can spare")
	}
}

func (s *server) checkPersistence(warn say) {
	saves, known := s.config["save"]
	switch fsync := s.config["appendfsync"]; {
	case s.info["aof_enabled"] == "1" && fsync == "always":
	case s.info["aof_enabled"] == "1" && fsync == "everysec":
		warn("has appendfsync everysec: when its machine fails, up to two seconds of accepted notifications may be lost, and their Sources have to publish them again; appendfsync always loses nothing")
	case s.info["aof_enabled"] == "1" && fsync == "":
		warn("does not answer CONFIG GET, so the hub cannot check appendfsync and min-replicas-to-write: allow it (ACL: +config|get), or make sure that appendfsync is always (everysec may lose two seconds), and min-replicas-to-write is 1 if there are replicas")
	case s.info["aof_enabled"] == "1":
		warn("has appendfsync %s: when its machine fails, half a minute of accepted notifications may be lost; set appendfsync always or everysec", fsync)
	case known && saves == "":
		warn("stores nothing on disk: when it ends, all subscriptions and notifications are lost; set appendonly yes")
	case !known:
		warn("has appendonly no: when it crashes, everything since its latest snapshot is lost, subscriptions too; set appendonly yes. It does not answer CONFIG GET, so the hub cannot check save and min-replicas-to-write: allow it (ACL: +config|get), or make sure that there are snapshots, and min-replicas-to-write is 1 if there are replicas")
	default:
		warn("stores only snapshots (appendonly no): when it crashes, everything since the latest one is lost, subscriptions too; set appendonly yes")
	}
}

func (s *server) checkReplicas(warn, no say) {
	if s.info["role"] == "slave" && s.info["slave_read_only"] == "0" {
		no("is a replica that accepts writes (replica-read-only no), and it loses them when it next synchronises with its master: name the master in the Redis URL, or its Sentinels with redis+sentinel://")
	}
	if n := s.info["connected_slaves"]; n != "" && n != "0" && s.config["min-replicas-to-write"] == "0" {
		warn("has replicas and min-replicas-to-write 0: in a failover it may continue for seconds beside the new master, and what it accepts then is lost, subscriptions too; set min-replicas-to-write 1")
	}
}
