// Package cluster says which hub of several on one store owns which of the 256
// shards: who delivers and verifies for the subscriptions of a shard, and trims and
// fetches for the topics of the partition of the same number.
//
// Each hub has a Keeper. It tells the store that the hub lives (Heartbeat), works
// out with Place who should own what, and holds its shards by leases, which it
// renews three times in their time. It does none of the work itself: a Part is told
// which shards to work on. The Keeper decides by its own clock alone when a lease is
// over, so a hub that is frozen, or that does not reach the store, stops by itself
// before another one takes over. No promise of delivery rests on that (journal.Merge
// makes late commits harmless); the order and the number of duplicates do.
//
// The package knows neither stores nor deliveries, and imports nothing of this
// module: package redisstore implements Store, package delivery is the Part, and
// internal/program/app brings them together. For a store of one process there is Alone.
package cluster
