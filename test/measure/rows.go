package main

// row is a line of the table: a benchmark, and what it has to show.
type row struct {
	what string
	pkg  string // folder of the benchmark
	name string // of it, with the case after a slash where it has several
	goal goal
	also []string // other metrics to show
	long bool     // only with -long
	full bool     // at full size with -long
}

// goal is a bound of a metric. The zero bounds say that there is no goal.
type goal struct {
	metric        string
	least, atMost float64
}

func atLeast(n float64, metric string) goal { return goal{metric: metric, least: n} }
func atMost(n float64, metric string) goal  { return goal{metric: metric, atMost: n} }
func shown(metric string) goal              { return goal{metric: metric} }

// rows are in the order of the table. All metrics that begin with x are ratios to a loop that does
// only what cannot be avoided, and runs in turn with the benchmark in the same process.
var rows = []row{
	{what: "fan-out, from publish to last delivery: 1,000 callbacks on 64 hosts, 1 KB, secrets, durable store", pkg: "test/bench", name: "FanOut", goal: atLeast(1, "x-bare-loop"), also: []string{"x-min", "x-max", "x-same-loop", "cpu-us/delivery", "bare-cpu-us/delivery", "allocs/delivery"}},
	{what: "fan-out of 400 bytes", pkg: "test/bench", name: "FanOutOf/400B", goal: atLeast(1, "x-bare-loop"), also: []string{"x-min", "x-max", "x-same-loop"}},
	{what: "fan-out of 64 KB", pkg: "test/bench", name: "FanOutOf/64KB", goal: atLeast(1, "x-bare-loop"), also: []string{"x-min", "x-max", "x-same-loop"}},
	{what: "fan-out of 1 MB, 200 callbacks, each body signed, which only the signing loop does too", pkg: "test/bench", name: "FanOutOf/1MB", goal: atLeast(1, "x-bare-loop"), also: []string{"x-signing-loop", "x-min", "x-max", "x-same-loop"}},
	{what: "fan-out of 1 KB to callbacks that answer after 20 ms; the loops make 512 POSTs at once", pkg: "test/bench", name: "FanOutOf/20ms", goal: atLeast(1, "x-bare-loop"), also: []string{"x-min", "x-max", "x-same-loop", "deliveries/s"}},
	{what: "fan-out of 1 KB with TLS", pkg: "test/bench", name: "FanOutOf/tls", goal: atLeast(1, "x-bare-loop"), also: []string{"x-min", "x-max", "x-same-loop"}},
	{what: "p99 from a publish to healthy callbacks at half of the full rate, while 1 % of all are dead and 4 % answer after 5 s, to that while all are healthy", pkg: "test/bench", name: "BesideSickHosts", goal: atMost(1.1, "x-all-healthy-p99"), also: []string{"x-min", "x-max", "all-healthy-p99-ms"}},
	{what: "fan-out of 1 KB with Redis on the same cores", pkg: "test/bench", name: "RedisFanOut", goal: atLeast(0.9, "x-bare-loop"), also: []string{"x-min", "x-max", "cpu-us/delivery", "redis-cpu-us/delivery"}},
	{what: "its commands of Redis, with those inside scripts", pkg: "test/bench", name: "RedisFanOut", goal: atMost(0.05, "commands/delivery"), also: []string{"scripts/delivery"}},
	{what: "until a publish is acknowledged, for a topic with many subscriptions, to one with one", pkg: "test/bench", name: "RedisPublish", goal: atMost(1.5, "x-one-subscription"), also: []string{"x-quarter", "x-three-quarters", "subscriptions"}, full: true},
	{what: "p50 from a publish to its callback, embedded store, to a POST, a write with fsync and a POST in a row", pkg: "test/bench", name: "Latency", goal: atMost(1.5, "x-row-p50"), also: []string{"x-row-answer-p50", "p50-us", "row-p50-us"}},
	{what: "the same, p99", pkg: "test/bench", name: "Latency", goal: atMost(2, "x-row-p99")},
	{what: "p50 from a publish to its callback, Redis, to a POST, a write with fsync and a POST in a row", pkg: "test/bench", name: "RedisLatency", goal: atMost(1.5, "x-row-p50"), also: []string{"x-row-answer-p50", "p50-us", "row-p50-us"}},
	{what: "the same, p99", pkg: "test/bench", name: "RedisLatency", goal: atMost(2, "x-row-p99")},
	{what: "p99 of a publish beside a fan-out at half of its rate, embedded store, to that of an idle hub", pkg: "test/bench", name: "PublishBesideFanOut", goal: atMost(3, "x-idle-p99"), also: []string{"x-min", "x-max"}},
	{what: "p99 of a publish beside a fan-out at half of its rate, Redis, to that of an idle hub", pkg: "test/bench", name: "RedisPublishBesideFanOut", goal: atMost(3, "x-idle-p99"), also: []string{"x-min", "x-max"}},
	{what: "memory for a subscription with its texts, embedded store", pkg: "test/bench", name: "EmbeddedLoad", goal: atMost(300, "heap-B/subscription"), also: []string{"subscriptions", "ms/GC", "disk-B/subscription"}, full: true},
	{what: "processor time to start with these subscriptions, to only reading them", pkg: "test/bench", name: "EmbeddedLoad", goal: atMost(1.5, "x-reading-cpu"), also: []string{"x-reading", "s-to-start"}, full: true},
	{what: "memory for a subscription with its texts, Redis", pkg: "test/bench", name: "RedisLoad", goal: atMost(300, "heap-B/subscription"), also: []string{"subscriptions", "ms/GC", "redis-B/subscription"}, full: true},
	{what: "processor time to start with these subscriptions, to only reading them", pkg: "test/bench", name: "RedisLoad", goal: atMost(1.5, "x-reading-cpu"), also: []string{"x-reading", "s-to-start"}, full: true},
	{what: "a hub on the embedded store with 1,000,000 subscriptions of 1,000 topics: a notification for each of them", pkg: "test/bench", name: "Million", goal: shown("x-bare-loop"), also: []string{"subscriptions", "s-to-start", "idle-RSS-MiB", "RSS-MiB", "ms-to-one-topic", "s-to-all", "deliveries/s", "disk-MiB"}, long: true, full: true},
	{what: "the lock of the scheduler: how much of the time it is held at the rate of 16 cores, 100,000 lanes", pkg: "delivery", name: "Lock/topics=100/hosts=1000/lanes=100000", goal: atMost(5, "%-held-at-16-cores"), also: []string{"%-held-at-64-cores", "ns-held/delivery"}},
	{what: "the lock of a group commit, for the results that wait to be stored", pkg: "delivery", name: "GroupCommit", goal: atMost(5, "%-results-at-64-cores"), also: []string{"ns-results/delivery"}},
	{what: "the lock of a shelf of idle connections", pkg: "internal/base/post", name: "Pool", goal: atMost(5, "%-pool-at-64-cores"), also: []string{"ns-pool/delivery"}},
	{what: "the lock of a shard's exchanges in flight", pkg: "internal/base/post", name: "Scope", goal: atMost(5, "%-scope-at-64-cores"), also: []string{"ns-scope/delivery"}},
	{what: "a lane without its texts, and collecting the garbage of 100,000", pkg: "delivery", name: "Lanes/hosts=1000", goal: shown("B/lane"), also: []string{"us/GC"}},
	{what: "bytes that a delivery of 1 KB sends", pkg: "test/bench", name: "Wire", goal: shown("sent-B/delivery"), also: []string{"received-B/delivery"}},
	{what: "[10,000,000 subscriptions](scale.md) simulated: time from a change to its last delivery, to that on paper", pkg: "delivery", name: "Scale/cores=16", goal: atMost(1.05, "x-ms-on-paper"), also: []string{"hubs", "x-lanes-on-paper", "x-moved-on-paper", "x-take-over-on-paper", "B/lane", "ns-scheduler/delivery"}, long: true},
	{what: "streams: from publish to the last of 9,900 readers, 1 KB, one notification after the other", pkg: "test/bench", name: "Streams/one", goal: atLeast(0.8, "x-bare-loop"), also: []string{"x-min", "x-max", "cpu-us/event", "bare-cpu-us/event"}},
	{what: "the same, five notifications at once", pkg: "test/bench", name: "Streams/together", goal: atLeast(0.8, "x-bare-loop"), also: []string{"x-min", "x-max", "cpu-us/event", "bare-cpu-us/event"}},
	{what: "callbacks at half of their full rate beside 2,000 streams of 20 topics with an event a second, p99 to that alone", pkg: "test/bench", name: "CallbacksAndStreams/topics", goal: atMost(1.1, "x-callbacks-alone-p99"), also: []string{"callbacks-alone-p99-ms"}},
	{what: "these streams, p99 to that alone", pkg: "test/bench", name: "CallbacksAndStreams/topics", goal: atMost(1.1, "x-streams-alone-p99"), also: []string{"streams-alone-p99-ms"}},
	{what: "memory of an idle stream", pkg: "test/bench", name: "IdleStreams/plain", goal: atMost(32, "KiB/stream"), also: []string{"bare-KiB/stream", "cpu-%"}},
	{what: "the same with TLS", pkg: "test/bench", name: "IdleStreams/tls", goal: atMost(64, "KiB/stream"), also: []string{"bare-KiB/stream"}},
	{what: "memory of a stream whose reader reads nothing, while 64 MiB are published", pkg: "test/bench", name: "DeafStreams", goal: shown("KiB/stream")},
	{what: "fan-out beside strangers who read histories, to that alone", pkg: "test/bench", name: "FanOutBesideStrangers", goal: shown("x-alone"), also: []string{"x-min", "x-max"}},
	{what: "p99 of a publish while strangers have all streams, to that without", pkg: "test/bench", name: "PublishBesideTakenStreams", goal: shown("x-without-p99"), also: []string{"x-min", "x-max"}},
	{what: "10,000 streams that do nothing", pkg: "test/bench", name: "IdleStreams/plain", goal: shown("KiB/stream"), also: []string{"bare-KiB/stream", "cpu-%"}, long: true},
	{what: "an idle hub on Redis, with a subscription to each of its topics", pkg: "test/bench", name: "RedisIdle", goal: shown("commands/s"), also: []string{"topics"}, long: true},
	{what: "durable appends of 1 KB, one writer, to plain write + fsync", pkg: "store/embedstore", name: "Append/writers=1", goal: shown("x-plain-fsync")},
	{what: "the same, 256 writers", pkg: "store/embedstore", name: "Append/writers=256", goal: shown("x-plain-fsync"), also: []string{"ops/fsync"}},
	{what: "validating a notification of 50,000 entries, to `xml.Unmarshal`", pkg: "resourcesync", name: "AgainstUnmarshal", goal: atLeast(8, "x-faster")},
	{what: "writing a list, to `xml.Marshal`", pkg: "resourcesync", name: "AgainstMarshal", goal: atLeast(4, "x-faster")},
	{what: "`rshub validate` of the same document, the whole process, to the package", pkg: "test/bench", name: "Validate", goal: shown("x-package")},
	{what: "notifications that `subscriber` stores and hands on, one sender, to a handler that only reads them", pkg: "subscriber", name: "Receive/senders=1", goal: shown("of-bare")},
	{what: "the same, 256 senders", pkg: "subscriber", name: "Receive/senders=256", goal: shown("of-bare")},
	{what: "a baseline from a dump, to unzipping the same files", pkg: "subscriber/destination", name: "Dump", goal: shown("dump/unzip")},
	{what: "`rssub audit` of 100,000 files of 25 bytes, to reading and hashing them", pkg: "subscriber/destination", name: "Audit/small", goal: atMost(2, "audit/hashing")},
	{what: "the same of 2,000 files of 100 KB", pkg: "subscriber/destination", name: "Audit/100KB", goal: atMost(1.11, "audit/hashing")},
}
