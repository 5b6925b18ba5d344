// Package subscriptions has the subscriptions and their changes: the Subscription and the
// Request that waits to change it, the leases, and the verification of intent (WebSub 5).
//
// A record, the pair of a topic and a callback, moves like this:
//
//	Accept ──> Request ──topic check──> ──GET, challenge echoed──> Activate or Deactivate
//	              │            │                    │
//	              │         denied            404, or four tries
//	              │            ▼                    ▼
//	              │     GET hub.mode=denied      dropped; what was in force stays
//	              └─ an unsubscribe of what is not subscribed is dropped
//
//	active ──lease runs out──> expired ──ResumeWithin──> ended ──EndedFor──> gone
//	   ▲                          │
//	   └────── Activate ──────────┘   the cursor goes on where it was
//
// The decisions (Activate, Deactivate, Retry, Replay, Expire, End, Purge, and
// the Outcome of a notification) are pure functions of a record and the time. The
// Service does the work around them: Accept stores a request durably, Run makes
// the outbound calls and ends subscriptions that were not renewed. The store has the
// truth. The Service's own queue has only ids and due times, so nothing is lost whenever
// it stops.
//
// The package calls callbacks through its Doer, and reads and changes records through
// Registry. It reads the heads of topics, and their entries without the bodies. Requests
// come from package hub through Service.Accept, and the operator's changes from package
// admin. Package delivery gets the results through Options.Changed and through the store.
package subscriptions
