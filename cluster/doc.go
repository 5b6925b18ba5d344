// Package cluster decides which of several hubs on one store owns which of the 256 shards.
// The owner delivers and verifies for the subscriptions of a shard, and trims and fetches
// for the topics of the partition with the same number.
//
// Each hub has a Keeper. It reports to the store that the hub is live (Heartbeat), calculates
// with Place who should own which shard, and keeps leases on its own shards, which it renews
// three times before they end. A Worker does the work of these shards. The Keeper decides by its
// own clock when a lease is over. So a hub that is frozen, or cannot reach the store, stops by
// itself before another hub takes over. Only the order of deliveries and the number of duplicates
// depend on that. Nothing gets lost, because journal.Merge makes late commits harmless.
//
// The package knows neither stores nor deliveries. Package redisstore implements Store, package
// delivery is the Worker, and internal/program/app connects them. Alone is for a store that one
// process uses.
package cluster
