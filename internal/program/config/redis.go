package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/quantity"
)

// redisRetention is the default of retention-total with Redis, which has all data in memory.
const redisRetention = "512MiB"

const redisForms = "write it like redis://127.0.0.1:6379, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT, with rediss for TLS and USER:PASSWORD@ before the first host"

// parseRedis checks the scheme and that there is a host; the store parses the rest. Errors
// do not contain the value, which may include a password.
func parseRedis(s string) (Secret, error) {
	if s == "" {
		return "", nil
	}
	scheme, rest, ok := strings.Cut(s, "://")
	base, kind, _ := strings.Cut(scheme, "+")
	switch {
	case !ok || base != "redis" && base != "rediss" || !slices.Contains([]string{"", "sentinel", "cluster"}, kind) || strings.HasSuffix(scheme, "+"):
		return "", errors.New("the value is not a Redis URL; " + redisForms)
	case rest == "" || strings.ContainsAny(rest[:1], "/?"):
		return "", errors.New("the Redis URL names no host; " + redisForms)
	case strings.HasPrefix(rest, masked):
		return "", errors.New("the Redis URL has asterisks where its user name and password were; replace them with the real ones")
	}
	return Secret(s), nil
}

// hideRedis masks the parts of a Redis URL that may be secret.
func hideRedis(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return Secret(s).String()
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = masked + rest[at:]
	}
	if before, _, ok := strings.Cut(rest, "?"); ok {
		rest = before + "?" + masked
	}
	return scheme + "://" + rest
}

// redisPrefixes matches the prefixes that package redisstore accepts.
var redisPrefixes = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,64}$`)

func parseRedisPrefix(s string) (string, error) {
	if !redisPrefixes.MatchString(s) {
		return "", fmt.Errorf("%q cannot begin the names of keys; write 1 to 64 letters, digits and characters of _.:/-", s)
	}
	return s, nil
}

// readRedis reads the URL of Redis from its file.
func (c *Config) readRedis(o Origins) error {
	if c.RedisURLFile == "" {
		return nil
	}
	if c.RedisURL != "" {
		return fmt.Errorf("%s: redis-url is set as well (%s); remove one of them", o.Where("redis-url-file"), o.Get("redis-url").From)
	}
	text, err := ReadSecret(c.RedisURLFile)
	if err == nil {
		c.RedisURL, err = parseRedis(string(text))
	}
	return o.at("redis-url-file", err)
}

// finishRedis reads the URL from its file, and sets the default that depends on it.
func (c *Config) finishRedis(o Origins) error {
	if err := c.readRedis(o); err != nil {
		return err
	}
	if i := slices.IndexFunc(o, func(one Origin) bool { return one.Name == "retention-total" }); c.RedisURL != "" && i >= 0 && o[i].Default {
		o[i].Value, o[i].From = []string{redisRetention}, "default with redis-url"
		total, err := quantity.Size(redisRetention)
		c.RetentionTotal = total
		return err
	}
	return nil
}

// checkRedis checks the settings of Redis against each other.
func (c *Config) checkRedis(o Origins, need func(ok bool, format string, args ...any)) {
	for _, name := range []string{"redis-prefix", "owner-lease", "install-id", "accept-empty-store"} {
		need(c.RedisURL != "" || o.Get(name).same, "%s: it is only for Redis, and redis-url is not set; set redis-url, or remove this", o.Where(name))
	}
	need(!c.AcceptEmptyStore || c.InstallID != "", "%s: without install-id the hub accepts every store; set install-id, or remove this", o.Where("accept-empty-store"))
}
