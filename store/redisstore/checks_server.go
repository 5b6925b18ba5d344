package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is what a hub has to know of a Redis server.
type server struct {
	addr   string
	info   map[string]string // of INFO; nil: it may not be asked
	config map[string]string // of CONFIG GET; nil: the same
	ahead  time.Duration     // its clock before this hub's
}

// examine asks a server. What an ACL forbids is left out.
func examine(ctx context.Context, c redis.Cmdable, addr string) (server, error) {
	s := server{addr: addr}
	info, err := c.Info(ctx).Result()
	if err = unlessForbidden(err); err != nil {
		return s, err
	} else if info != "" {
		s.info = parseInfo(info)
	}
	for _, name := range []string{"appendfsync", "save", "min-replicas-to-write"} {
		value, err := c.ConfigGet(ctx, name).Result()
		if err = unlessForbidden(err); err != nil {
			return s, err
		}
		if v, ok := value[name]; ok {
			if s.config == nil {
				s.config = map[string]string{}
			}
			s.config[name] = v
		}
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

// leastVersion is the oldest Redis whose scripts and streams do what this package needs.
const leastVersion = 7

// findings returns what an operator should know of a server, and why no hub may work on
// it.
func (s *server) findings() (warnings []string, refuse error) {
	warn := func(format string, args ...any) {
		warnings = append(warnings, "the Redis at "+s.addr+" "+fmt.Sprintf(format, args...))
	}
	no := func(format string, args ...any) {
		refuse = errors.Join(refuse, fmt.Errorf("the Redis at %s %s", s.addr, fmt.Sprintf(format, args...)))
	}
	if s.info == nil {
		warn("does not answer INFO, so version, memory and persistence could not be checked, and what a restart or a failover loses may go unnoticed: allow it (ACL: +info), or see to it that maxmemory-policy is noeviction and appendonly yes")
	} else {
		major, _, _ := strings.Cut(s.info["redis_version"], ".")
		if n, err := strconv.Atoi(major); err != nil || n < leastVersion {
			no("is of version %q, and %d or later is needed: upgrade it", s.info["redis_version"], leastVersion)
		}
		s.checkMemory(warn, no)
		s.checkPersistence(warn)
		s.checkReplicas(warn)
	}
	switch off := s.ahead.Abs(); {
	case off > clockRefuse:
		no("has a clock that is %s from this machine's, and more than %s is too much to compute leases with: set both by NTP", off.Round(time.Second), clockRefuse)
	case off > clockWarn:
		warn("has a clock that is %s from this machine's: set both by NTP", off.Round(100*time.Millisecond))
	}
	return warnings, refuse
}

type say = func(format string, args ...any)

func (s *server) checkMemory(warn, no say) {
	policy, limited := s.info["maxmemory_policy"], s.info["maxmemory"] != "0"
	switch {
	case policy == "":
		warn("does not say its maxmemory-policy: see to it that it is noeviction, or it throws away notifications and subscriptions when it is full")
	case policy != "noeviction" && limited:
		no("has maxmemory-policy %s and would throw away notifications and subscriptions when it is full: set maxmemory-policy noeviction", policy)
	case policy != "noeviction":
		warn("has maxmemory-policy %s, with which it throws away notifications and subscriptions once it gets a maxmemory and is full: set maxmemory-policy noeviction, and a maxmemory", policy)
	case !limited:
		warn("has no maxmemory, so nobody can tell when it is nearly full and publishes have to wait: set maxmemory to what its machine can spare")
	}
}

func (s *server) checkPersistence(warn say) {
	saves, known := s.config["save"]
	switch fsync := s.config["appendfsync"]; {
	case s.info["aof_enabled"] == "1" && fsync == "always":
	case s.info["aof_enabled"] == "1" && fsync == "everysec":
		warn("has appendfsync everysec: when its machine fails, up to two seconds of what publishers were told is accepted may be lost, and their Sources have to publish it again; appendfsync always loses nothing")
	case s.info["aof_enabled"] == "1" && fsync == "":
		warn("does not answer CONFIG GET, so appendfsync and min-replicas-to-write could not be checked: allow it (ACL: +config|get), or see to it that appendfsync is always, or everysec where two seconds may be lost, and min-replicas-to-write 1 where there are replicas")
	case s.info["aof_enabled"] == "1":
		warn("has appendfsync %s: when its machine fails, half a minute of what publishers were told is accepted may be lost; set appendfsync always or everysec", fsync)
	case known && saves == "":
		warn("keeps nothing on disk: when it ends, all subscriptions and notifications are lost; set appendonly yes")
	case !known:
		warn("has appendonly no: when it ends by itself, all since its latest snapshot is lost, subscriptions too; set appendonly yes. It does not answer CONFIG GET, so save and min-replicas-to-write could not be checked: allow it (ACL: +config|get), or see to it that there are snapshots, and min-replicas-to-write 1 where there are replicas")
	default:
		warn("keeps snapshots alone (appendonly no): when it ends by itself, all since the latest of them is lost, subscriptions too; set appendonly yes")
	}
}

func (s *server) checkReplicas(warn say) {
	if n := s.info["connected_slaves"]; n != "" && n != "0" && s.config["min-replicas-to-write"] == "0" {
		warn("has replicas and min-replicas-to-write 0: in a failover it may go on for seconds beside the new master, and what it takes then is lost, subscriptions too; set min-replicas-to-write 1")
	}
}
