package config

import (
	"strings"

	"github.com/rshub/rshub/internal/base/quantity"
)

// setting is one row of the table. Its texts are values as a person writes them.
type setting struct {
	name string
	arg  string // name of the value in the help; empty: the setting is true or false
	help string
	def  string
	auto string // what an empty def means
	dev  string // the default with --dev; empty: the same
	list bool   // it may be given several times
	// exact says that commas and white space belong to the values where the items of a list are
	// given one by one. The other lists are split there, too.
	exact bool
	// set parses and stores a value. A setting that is not a list gets exactly one text.
	set func(text []string) error
	// hide masks a value that may include a secret; nil: the whole value may be shown.
	hide func(text string) string
}

// settings is the table of everything that can be set, bound to c.
func settings(c *Config) []setting {
	return []setting{
		{name: "config", arg: "FILE", help: "YAML file of settings; its keys are the names of these flags without the dashes in front", auto: "none", set: ignore},
		{name: "dev", help: "settings for a laptop: open, local, without limits. It changes only defaults; what is set elsewhere wins", def: "false", set: one(parseBool, &c.Dev)},

		{name: "listen", arg: "ADDR", help: "address of the public listener", def: ":8080", dev: "127.0.0.1:8080", set: one(parseAddr, &c.Listen)},
		{name: "public-url", arg: "URL", help: "the hub URI, exactly as publishers name it in Link rel=\"hub\"", auto: "http://localhost:PORT/, or https with tls-cert", set: one(parsePublicURL, &c.PublicURL)},
		{name: "tls-cert", arg: "FILE", help: "certificate of the public listener and its chain (PEM), read again when it changes; the listener then serves only https", auto: "none", set: one(anyText, &c.TLSCert)},
		{name: "tls-key", arg: "FILE", help: "private key of tls-cert (PEM), read again when it changes", auto: "none", set: one(anyText, &c.TLSKey)},
		{name: "admin-listen", arg: "ADDR", help: "address of the operator's listener: API, metrics, health", def: "127.0.0.1:8081", set: one(parseAddr, &c.AdminListen)},
		{name: "admin-token-file", arg: "FILE", help: "file with the bearer token of the operator's listener, at least 16 characters; required unless the listener is on a loopback address", auto: "none", set: one(anyText, &c.AdminTokenFile)},
		{name: "admin-readonly-token-file", arg: "FILE", help: "file with a second bearer token of the operator's listener, with which one may look and change nothing", auto: "none", set: one(anyText, &c.ReaderTokenFile)},
		{name: "admin-auth-header", arg: "NAME", help: "header in which a proxy of admin-auth-proxy names the person whom it logged in; that person needs no token", auto: "none: only tokens count", set: one(parseHeaderName, &c.AdminAuthHeader)},
		{name: "admin-auth-role-header", arg: "NAME", help: "header in which that proxy says operator (may do everything) or reader (may look)", auto: "none: operator for all", set: one(parseHeaderName, &c.AdminAuthRoleHeader)},
		{name: "admin-auth-proxy", arg: "CIDR", help: "proxies whose admin-auth-header and X-Forwarded-For count at the operator's listener; nobody else may reach it from there", auto: "none", list: true, set: many(ParseRange, &c.AdminAuthProxy)},
		{name: "admin-tls-cert", arg: "FILE", help: "certificate of the operator's listener and its chain (PEM), read again when it changes; the listener then serves only https", auto: "none", set: one(anyText, &c.AdminTLSCert)},
		{name: "admin-tls-key", arg: "FILE", help: "private key of admin-tls-cert (PEM), read again when it changes", auto: "none", set: one(anyText, &c.AdminTLSKey)},
		{name: "data-dir", arg: "DIR", help: "folder of the hub's data, created if it does not exist; with redis-url only publishers.yaml is in it", def: "./rshub-data", set: one(notEmpty, &c.DataDir)},
		{name: "redis-url", arg: "URL", help: "Redis with the hub's data, for one hub or several: redis://HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT, with rediss for TLS and USER:PASSWORD@ before the first host", auto: "none: the data folder", set: one(parseRedis, &c.RedisURL), hide: hideRedis},
		{name: "redis-url-file", arg: "FILE", help: "file that contains redis-url, because that has a password", auto: "none", set: one(anyText, &c.RedisURLFile)},
		{name: "redis-prefix", arg: "TEXT", help: "beginning of every key in Redis; hubs with the same prefix share one store", def: "rshub", set: one(parseRedisPrefix, &c.RedisPrefix)},
		{name: "owner-lease", arg: "DURATION", help: "with Redis: how long the other hubs wait before they take over a dead hub's work", def: "30s", set: one(atLeast("1s", quantity.Duration), &c.OwnerLease)},
		{name: "install-id", arg: "ID", help: "id that the store in Redis must have (see GET /api/v1/info); the hub refuses a Redis without it", auto: "none: any", set: one(anyText, &c.InstallID)},
		{name: "accept-empty-store", help: "create an empty store in a Redis without install-id", def: "false", set: one(parseBool, &c.AcceptEmptyStore)},
		{name: "seal-key-file", arg: "FILE", help: "file of keys that encrypt the stored secrets of subscribers, one a line in base64 or hexadecimal; the first encrypts, all decrypt (openssl rand -base64 32 makes one)", auto: "none: the secrets are stored as plain text", set: one(anyText, &c.SealKeyFile)},
		{name: "node-id", arg: "NAME", help: "name of this hub in logs and the API", auto: "random", set: one(anyText, &c.NodeID)},

		{name: "continuity", arg: "RULE", help: "what to do with a gap between notifications: strict refuses it, flag accepts and records it", def: ContinuityStrict, set: one(oneOf(ContinuityStrict, ContinuityFlag), &c.Continuity)},
		{name: "topic-check", arg: "RULE", help: "whether a topic URI must name this hub in its links: require, warn (accept and log it) or off (do not ask)", def: TopicCheckRequire, dev: TopicCheckWarn, set: one(oneOf(TopicCheckRequire, TopicCheckWarn, TopicCheckOff), &c.TopicCheck)},
		{name: "topic-allow", arg: "PATTERN", help: "topics that the hub serves, such as https://example.org/*", auto: "all", list: true, set: many(parsePattern, &c.TopicAllow)},
		{name: "topic-deny", arg: "PATTERN", help: "topics that the hub does not serve, even if allowed", auto: "none", list: true, set: many(parsePattern, &c.TopicDeny)},
		{name: "publish-auth", arg: "WAYS", help: "what authorises a publish: content (the topic URI serves the same), token (a publisher's token or signature), open (anyone)", def: "content,token", dev: AuthOpen, list: true, set: many(oneOf(AuthContent, AuthToken, AuthOpen), &c.PublishAuth)},
		{name: "publishers-file", arg: "FILE", help: "YAML file of the publishers, their topics and credentials", auto: "publishers.yaml in the data folder, if it is there", set: one(anyText, &c.PublishersFile)},

		{name: "publish-rate", arg: "RATE", help: "publishes accepted from one publisher, and for one topic host, in requests or also in bytes as in 600/m,2GiB/h; 0: no limit", def: "600/m", dev: "0", set: func(text []string) (err error) {
			c.PublishRate, c.PublishBytes, err = parsePublishRate(text[0])
			return err
		}},
		{name: "subscribe-rate", arg: "RATE", help: "subscription requests accepted from one requester; 0: no limit", def: "600/m", dev: "0", set: one(parseRate, &c.SubscribeRate)},
		{name: "verify-budget", arg: "N", help: "verifications, denials, topic checks and fetches a minute to one host without a confirmation, half of them reserved for established topics and subscriptions; 0: no limit", def: "20", dev: "0", set: one(parseCount, &c.VerifyBudget)},
		{name: "max-pending", arg: "N", help: "subscription requests that may wait for verification; at most 1000 for one callback host, and a quarter of both from one requester; 0: no limit", def: "100000", dev: "0", set: one(parseCount, &c.MaxPending)},
		{name: "max-subscriptions", arg: "N", help: "stored subscriptions in total, including those that ended in the last 7 days; at most a quarter for one callback site (a registrable domain) and for one requester. Over it new ones are denied, and renewals go on; 0: no limit", def: "1000000", dev: "0", set: one(parseCount, &c.MaxSubscriptions)},
		{name: "max-subscriptions-per-host", arg: "N", help: "subscriptions of one callback host; 0: no limit", def: "0", set: one(parseCount, &c.MaxSubscriptionsPerHost)},

		{name: "lease-min", arg: "DURATION", help: "shortest lease; a request for less gets this", def: "300s", dev: "1s", set: one(wholeSeconds, &c.LeaseMin)},
		{name: "lease-default", arg: "DURATION", help: "lease of a request without one", def: "864000s", set: one(wholeSeconds, &c.LeaseDefault)},
		{name: "lease-max", arg: "DURATION", help: "longest lease; a request for more gets this", def: "2678400s", set: one(wholeSeconds, &c.LeaseMax)},
		{name: "resume-within", arg: "DURATION", help: "a subscription that is made again within this time after its lease ended continues where it stopped", def: "24h", set: one(quantity.Duration, &c.ResumeWithin)},

		{name: "signature", arg: "METHOD", help: "how deliveries are signed: sha1, sha256, sha384 or sha512", def: "sha256", set: one(oneOf("sha1", "sha256", "sha384", "sha512"), &c.Signature)},
		{name: "retry-first", arg: "DURATION", help: "wait before the second attempt (the steps are 5s, 30s, 2m, 10m, 30m, 1h, 2h, 4h, 6h); it scales the others", def: "5s", set: one(atLeast("1ms", quantity.Duration), &c.RetryFirst)},
		{name: "retry-max", arg: "DURATION", help: "longest wait between attempts", def: "6h", set: one(atLeast("1ms", quantity.Duration), &c.RetryMax)},
		{name: "give-up", arg: "DURATION", help: "how long the hub tries to deliver a notification to a subscription, from the first attempt; a damaged one is passed over after this time", def: "72h", set: one(atLeast("1ms", quantity.Duration), &c.GiveUp)},
		{name: "timeout", arg: "DURATION", help: "time limit of one delivery, plus the time that its body takes at 128 KiB/s; also the longest pause without progress", def: "15s", set: one(atLeast("1ms", quantity.Duration), &c.Timeout)},
		{name: "max-inflight", arg: "N", help: "deliveries at once", def: "512", set: one(atLeast("1", parseCount), &c.MaxInflight)},
		{name: "max-inflight-bytes", arg: "SIZE", help: "notifications in memory at once; one for many callbacks counts once", def: "256MiB", set: one(atLeast("1", quantity.Size), &c.MaxInflightBytes)},
		{name: "per-host", arg: "N", help: "deliveries at once to one callback host:port", def: "8", set: one(atLeast("1", parseCount), &c.PerHost)},
		{name: "commit-window", arg: "DURATION", help: "longest time until the result of a delivery is stored", def: "100ms", set: one(atLeast("1ms", quantity.Duration), &c.CommitWindow)},

		{name: "retention-age", arg: "DURATION", help: "how long notifications are kept", def: "72h", set: one(atLeast("1s", quantity.Duration), &c.RetentionAge)},
		{name: "retention-bytes", arg: "SIZE", help: "size of the notifications that are kept for one topic", def: "1GiB", set: one(atLeast("1", quantity.Size), &c.RetentionBytes)},
		{name: "retention-total", arg: "SIZE", help: "size of all notifications that are kept; with redis-url the default is 512MiB", def: "8GiB", set: one(atLeast("1", quantity.Size), &c.RetentionTotal)},
		{name: "min-free-disk", arg: "SIZE", help: "free space that has to stay on the disk of the data folder; with less, publishes and subscription requests get 503, and deliveries go on; not used with redis-url; 0: no limit", def: "256MiB", set: one(quantity.Size, &c.MinFreeDisk)},
		{name: "max-body", arg: "SIZE", help: "largest notification accepted", def: "50MiB", set: one(atLeast("1", quantity.Size), &c.MaxBody)},

		{name: "allow-cidr", arg: "CIDR", help: "private or loopback range that callbacks and topics may be in", auto: "none", dev: "127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7", list: true, set: many(ParseAllowedRange, &c.AllowCIDR)},
		{name: "trusted-proxy", arg: "CIDR", help: "proxies in front of the hub whose X-Forwarded-For and X-Forwarded-Proto count", auto: "none", list: true, set: many(ParseRange, &c.TrustedProxy)},
		{name: "allow-host", arg: "HOST", help: "host name or address to which browsers may send requests, besides that of public-url. It matters only for requests with Origin or Sec-Fetch-Site, which programs do not send", auto: "none", list: true, set: many(parseHost, &c.AllowHost)},
		{name: "subscriber-pages", help: "serve pages below public-url that show subscribers their subscription, to those with a link of rshub sub link", def: "false", set: one(parseBool, &c.SubscriberPages)},
		{name: "stream", arg: "WHO", help: "who may read what the hub keeps, as a stream of events or as the changes since a time: open (anyone, as anyone can subscribe), token (those with a token of a publisher that has reads: in the publishers file) or off", def: StreamOpen, set: one(oneOf(StreamOpen, StreamToken, StreamOff), &c.Stream)},
		{name: "stream-origin", arg: "ORIGIN", help: "origin whose web pages may read it, such as https://app.example, or *", auto: "none", dev: "*", list: true, set: many(parseOrigin, &c.StreamOrigin)},
		{name: "stream-stall", arg: "DURATION", help: "a reader that takes nothing for this time is ended", def: "15s", set: one(atLeast("1s", quantity.Duration), &c.StreamStall)},
		{name: "max-streams", arg: "N", help: "streams at once, which do not count among the connections of the public listener; 0: no limit", def: "10000", set: one(parseCount, &c.MaxStreams)},
		{name: "max-streams-per-address", arg: "N", help: "streams at once for one address; 0: no limit", def: "100", dev: "0", set: one(parseCount, &c.MaxStreamsPerAddress)},
		{name: "max-history", arg: "N", help: "answers about the past that the hub works on at once; eight times as many may wait for slow readers, a quarter of this number for one requester; 0: no limit", def: "8", dev: "0", set: one(parseCount, &c.MaxHistory)},
		{name: "egress-proxy", arg: "URL", help: "proxy for calls to callbacks and topics: http://HOST:PORT or https://HOST:PORT, with USER:PASSWORD@ before the host if needed", auto: "none", set: one(parseProxy, &c.EgressProxy), hide: hideUser},
		{name: "require-https-for-secrets", help: "refuse hub.secret in requests that did not come over https, here or at a trusted proxy, or whose callback is not https", def: "false", set: one(parseBool, &c.RequireHTTPSForSecrets)},
		{name: "ca-file", arg: "FILE", help: "certificate authorities (PEM) trusted for callbacks, topics and the collector of traces, besides the system's", auto: "none", set: one(anyText, &c.CAFile)},

		{name: "drain", arg: "DURATION", help: "time for deliveries in progress when the hub is asked to stop", def: "15s", set: one(quantity.Duration, &c.Drain)},
		{name: "log-level", arg: "LEVEL", help: "debug, info, warn or error", def: "info", set: one(oneOf("debug", "info", "warn", "error"), &c.LogLevel)},
		{name: "log-format", arg: "FORMAT", help: "json or console", auto: "console on a terminal, else json", set: one(oneOf("json", "console", ""), &c.LogFormat)},
		{name: "otlp-endpoint", arg: "URL", help: "collector for traces, OTLP over HTTP: http://HOST:4318, or with a path", auto: "none: nothing is traced", set: one(parseEndpoint, &c.OTLPEndpoint)},
		{name: "pprof", help: "serve profiles of the process at /debug/pprof/ on the operator's listener; needs --admin-token-file", def: "false", set: one(parseBool, &c.Pprof)},
	}
}

// one stores a single parsed value.
func one[T any](parse func(string) (T, error), field *T) func([]string) error {
	return func(text []string) error {
		v, err := parse(text[0])
		if err == nil {
			*field = v
		}
		return err
	}
}

// many stores a list of parsed values.
func many[T any](parse func(string) (T, error), field *[]T) func([]string) error {
	return func(text []string) error {
		*field = nil
		for _, t := range text {
			v, err := parse(t)
			if err != nil {
				return err
			}
			*field = append(*field, v)
		}
		return nil
	}
}

func ignore([]string) error { return nil }

// split splits a list at white space and commas. A comma may be part of a URL. So in a list of
// URLs, a comma separates only if another URL follows.
func split(text string) []string {
	if strings.Contains(text, "://") {
		text = strings.NewReplacer(",http://", " http://", ",https://", " https://").Replace(text)
	} else {
		text = strings.ReplaceAll(text, ",", " ")
	}
	return strings.Fields(text)
}

// texts returns the values of s, with lists split.
func (s *setting) texts(given ...string) []string {
	if !s.list {
		return given
	}
	var all []string
	for _, g := range given {
		all = append(all, split(g)...)
	}
	return all
}

// env is the environment variable of s, which begins with prefix.
func (s *setting) env(prefix string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}
