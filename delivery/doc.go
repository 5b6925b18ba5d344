// Package delivery brings what the journal holds to the callbacks that
// subscribed to it: at least once, in order, signed, with retries, and so that
// nobody waits for somebody else's slow callback.
//
// Every subscription that has not ended is a lane: a small struct with the
// subscription's cursor. Out of its lease it is idle, and gets nothing. A delivery
// moves the cursor; a retry is a cursor that has not moved yet. Lanes go through
// these states, all under one lock that nothing slow is done under:
//
//	            a publish, seen by hint or sweep
//	   ┌──────┐ ───────────────────────────────> ┌───────┐
//	   │ idle │                                  │ ready │ <─────────────┐
//	   └──────┘ <───────┐                        └───────┘               │
//	                    │ at the head                │ its turn          │
//	                    │                            ▼                   │
//	                    │      more to deliver  ┌───────────┐  no room   ┌────────┐
//	                    ├───────── ready <───── │ in flight │ ─────────> │ parked │
//	                    │                       └───────────┘            └────────┘
//	                    │                            │ failed
//	                    │      its time comes   ┌─────────┐
//	                    └───────── ready <───── │ waiting │   a publish, a retry now or a
//	                                            └─────────┘   host that is back shortens it
//
//	any ── ended ──> gone
//
// A fixed number of senders takes ready lanes in turn: topics take turns to have a
// sender, and at each host to have a place (turn.go, class.go); hosts that are
// slow or new leave some senders to those that are neither (standing.go). What
// touches many lanes, a publish to a large topic above all, does so in chunks
// between which everything else has its turn (topic.go). A sender finds the next
// notification (deliver.go; bodies.go keeps those in memory that are in use, and
// lets a lane wait for a large one without a sender), makes one HTTP exchange
// (attempt.go, watch.go), asks Decide what follows (decide.go), hands the result
// to the group commit, which stores results in groups (commit.go), and puts the lane
// back. What subscriptions there are and which topics moved comes from Apply,
// from hints, and for certain from the sweep (intake.go, sweep.go).
//
// A hub delivers to the subscriptions of the shards that it took (shard.go), until
// it yields or loses them. Where the store lost its tail, the hub finds once for
// each topic where its journal goes on, and records what is missing (rollback.go).
//
// The package may call callbacks through the Doer it is given, read the journal,
// and read and commit subscriptions, and record with a topic what the store lost of
// it; it writes nothing else. Data comes in from
// package hub through the journal, and from package subscriptions through Apply
// and the store; it goes on to the callbacks, and as cursors, attempts and gaps
// to the store.
package delivery
