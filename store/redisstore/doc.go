// Package redisstore keeps the journal and the subscriptions of one or more
// hubs in Redis 7: a single server, one with replicas that Sentinels watch, or a
// Redis Cluster. It is how rshub outgrows one machine.
//
// # What is in which key
//
// P is the prefix (Options.Prefix), n a number from 0 to 255: the partition of a
// topic, or the shard of a subscription (journal.Partition). What stands in
// braces makes Redis Cluster keep all keys of a partition in one slot; every
// operation works on one slot alone, except in poll.go outside a Cluster. Eight slots have
// the records of all shards (records_keys.go).
//
//	P:{p:n}:heads            hash    topic id -> head record (head.go)
//	P:{p:n}:entries:TOPIC    stream  position-nonce -> e packed entry, s size, and b body or c chunks
//	P:{p:n}:intervals:TOPIC  list    the latest 64 packed intervals, newest first
//	P:{p:n}:ids              hash    notification id -> topic id, position, nonce
//	P:{p:n}:body:ID          hash    chunk number -> part of a large body
//	P:{p:n}:changes          zset    topic id, by the time of its latest entry in microseconds
//	P:{p:n}:latest           the greatest of these times, which is cheaper to ask for (poll.go)
//	P:{p:n}:marks            hash    topic id -> packed ping record; "rev" -> revision of the hash
//	P:{p:n}:history          epoch and replication id with which the partition was reconciled (history.go)
//	P:{p:n}:confirmed        hash    hub -> replication id with which it compared, until it is reconciled
//	P:{p:n}:hints            channel (no key) of the topics that got an entry
//	P:{r:k}:cursors          hash    subscription id -> packed cursor, of the shards n with n mod 8 = k
//	P:{r:k}:subscriptions:n  hash    subscription id -> packed subscription without its cursor
//	P:{r:k}:requests:n       hash    subscription id -> packed pending request
//	P:{r:k}:attempts:ID      list    the latest 50 packed attempts of a subscription, oldest first
//	P:{r:k}:changes:n        stream  i id of a subscription that changed, t token of the change; about 1,024
//	P:{r:k}:owners           hash    leases on the shards (leases.go)
//	P:{nodes}:hubs           hash    hub -> its latest heartbeat (leases.go)
//	P:{nodes}:alerts         hash    partitions that the hubs have to check (leases.go)
//	P:{nodes}:summary:HUB    what a hub shows the others; it expires (board.go)
//	P:{nodes}:notes          list    journal.Notebook, the latest first (notes.go)
//	P:{nodes}:shelf:NAME     journal.Shelf (shelf.go)
//	P:{meta}:store           hash    schema, what hubs write, id of the installation, when it was created (meta.go)
//	P:{meta}:secrets         set     the forms in which secrets may be stored (records_secrets.go)
//
// TOPIC and ID are UUIDs in their text form; ids inside of values are their 16
// bytes. Values are packed by the codecs of packages journal and subscriptions,
// which put a version byte before them. What is compared in a script is a string
// of a fixed width there, since the numbers of Lua hold no more than 53 bits.
//
// # How it is written
//
// One Lua script writes what belongs together. A script decides nothing: Go reads a
// value and computes the next one, and the script stores that if the stored value has
// not changed meanwhile. Only the merge of cursors is done by a script (commit.go),
// because each delivery needs it. The client sends a command again if its answer was
// lost. Each script recognises that it has run already.
//
// # What a full Redis stores
//
// Over nine tenths of its maxmemory, Redis stores nothing new: neither notifications, pings,
// imports nor requests, including renewals and unsubscribes. Strangers write these. It
// still stores everything else, which is bounded by what is stored already: cursors,
// attempts, gaps, ends, activations, the results of requests and pings that it has, trims,
// removals, leases and heartbeats.
//
// The hub asks every two seconds how full Redis is (memory.go). Between two answers Redis
// itself refuses what is new over its maxmemory, because each script says on which side it
// is (script.go). A command that is no script only reads or deletes. None is inside MULTI,
// where a full Redis refuses even those.
//
// # Which rights its user needs
//
// With the prefix rshub, a user of Redis with these rules has the rights that a
// hub needs, and no right to other keys:
//
//	~rshub:* &rshub:* -@all +@read +@write +@connection +@transaction +@pubsub
//	+@scripting -@dangerous +info +time +command +cluster|slots
//
// # What its parts do
//
// A Store consists of parts (store.go). Each has its own state. They share the
// connection (conn.go), the names of the keys (keys.go), and what all scripts have in
// common (script.go).
//
//	appender    accepts notifications: journal.Appender and journal.Recorder
//	reader      reads entries and bodies: journal.Reader
//	deadlines   until when Redis may store an entry, by its own clock
//	watcher     reports which topics changed: journal.Watcher
//	trimmer     lists, trims and removes topics: journal.Trimmer and journal.Remover
//	restorer    moves topics from and to another store: journal.Restorer
//	pings       the topics that were pinged: journal.Pings
//	records     subscriptions, requests and cursors: subscriptions.Store
//	notes       short texts for operators: journal.Notebook
//	shelf       values that all hubs share: journal.Shelf
//	leases      hubs, and their leases on shards: cluster.Store
//	hubs        which hubs are alive, as this hub knows from its heartbeats
//	board       what the hubs show each other: cluster.Board
//	upgrader    finishes an upgrade of the format: cluster.Upgrader
//	heads       the head records, and how this hub saw them last; all parts of the journal use it
//	histories   the history of each partition that this hub may append with
//	reconciler  finds out what Redis lost, and repairs it
//	checks      decides whether anything may be written
//	memory      how full Redis is
//
// Data comes in from packages hub and subscriptions, and goes out to delivery.
package redisstore
