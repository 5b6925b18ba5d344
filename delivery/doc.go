// Package delivery delivers the notifications of the journal to the callbacks that
// subscribed to them: at least once, in order, signed, with retries, and so that
// no callback waits for a slow one.
//
// # The way of a notification
//
//	heads.go       A topic has a new entry, says a hint or the sweep (sweep.go).
//	walks.go       Fan out: a walk over the topic's lanes, the first few at once, the others in
//	               the loop around scheduler.step.
//	scheduler.go   Those that have something to deliver become ready (proceed).
//	turns.go       The turn of a lane comes, and a sender gets it (schedulers.next).
//	sender.go      The sender runs the stages, which are a list there. Each is in its file:
//	  find.go      the next notification, from memory (bodies.go) or the journal;
//	  claim.go     a sender for a large body (limits.go);
//	  confirm.go   the subscription, its lease and its shard are as they were;
//	  attempt.go   one HTTP exchange, in time (package post);
//	  decide.go    what follows, by Decide and the retry policy (policy.go);
//	  commit.go    the result is stored, in groups (group_commit.go), and reported.
//
// A stage that ends the delivery puts its lane back (put_back.go).
//
// Every subscription that has not ended is a lane: a small struct with the
// subscription's cursor. Out of its lease it is idle, and gets nothing. A delivery
// moves the cursor; a retry is a cursor that has not moved yet. Lanes go through
// these states:
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
// # The rule
//
// One rule says which delivery may start, and when: a ready lane starts once each limit that
// it counts against has a free slot, and its turn has come among the lanes of which the
// same is true. The limits are these:
//
//	limit      counts                                    at most
//	senders    deliveries                                --max-inflight
//	suspects   deliveries to suspect hosts               a fifth of the senders
//	unproven   deliveries to hosts that are not quick    all senders except a fifth
//	large      those, and bodies over 64 KiB             all senders except a tenth
//	host       deliveries to one host:port               --per-host; if suspect, one, when a probe is due
//	retries    attempts at a host after the first        half of the host's slots, rounded up
//
// Turns go from the hub to the lane. Pools of hosts (of like health) take turns, the topics
// of each, and the hosts of a topic. At the host the kind of attempt with the fewest
// deliveries in flight goes first, then topics take turns, and then the lanes of each. The
// one exception is a lane whose large body has just been read: it had its turn before, has a slot
// reserved, and goes first.
//
// What this guarantees:
//
//   - To the operator: no sender is idle while a ready lane may start, and no limit is exceeded.
//   - To a quick host: hosts that are slow, new or down leave it a fifth of the senders, and large
//     bodies a tenth. To new hosts, large bodies leave a twentieth.
//   - To each host: at most --per-host deliveries at a time, and one probe for each step of
//     the ladder while it does not answer.
//   - To each topic at a host: where T topics have ready lanes of one kind, at most k*T-1 others of
//     that kind start between the time when its k-th lane is ready and the start of that lane,
//     however many lanes and hosts other topics have. A kind has all slots of the host, half
//     of them if another kind waits as well, and a quarter if both do. Suspect hosts, and lanes that
//     go first, are the exceptions.
//
// A hub with more than two processors has several schedulers (schedulers.go), which share the senders and the
// other limits of the hub, and not the hosts. Each takes turns by itself, and they take turns to have a sender.
//
// TestSchedulerKeepsTheRule checks it with random histories. docs/delivery.md has it with the
// waits that follow.
//
// # The types
//
// Each type has its own lock or none:
//
//	scheduler    lanes, turns, hosts and timers; no I/O, no lock and no goroutine, so that a
//	             simulation runs it with a virtual clock. sharedScheduler has its lock
//	schedulers   those of the hub, one for every two processors, each with its own hosts;
//	             topics has what they share of a topic
//	shards       which shards this hub works on, and their subscriptions in the store
//	heads        which topics have something new
//	sender       the stages of a delivery; client makes its HTTP exchange
//	bodies       the bodies in memory, and which lanes get room for one next
//	troubles     what cannot be read; rewinder: what the store lost
//	groupCommit  results, stored in groups; results: those of the hub, one for every 16 processors
//	reporter     events, the log and counters
//
// What touches many lanes, a publish to a large topic above all, does so in chunks
// between which others have the lock.
//
// The package calls callbacks through its Doer, reads the journal, and reads and commits
// subscriptions. It records with a topic what the store lost of it, and writes nothing else.
// Data comes in from package hub through the journal, and from package subscriptions through
// Apply and the store. It goes on to the callbacks, and as cursors, attempts and gaps to the
// store.
package delivery
