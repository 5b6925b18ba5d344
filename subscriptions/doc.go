// Package subscriptions knows who subscribed to what, and how that changes: the
// Subscription and the Request that waits to change it, the leases, and the
// verification of intent (WebSub 5).
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
// the outbound calls and ends what was not renewed. Truth is in the store; the
// Service's own queue holds ids and due times only, so that nothing is lost when
// it stops anywhere.
//
// The package may call callbacks through the Doer it is given, and read and
// change records through Registry; it reads the heads of topics, and of their
// entries what there is besides the body. Requests come in from package hub
// through Service.Accept, and what the operator wants from package admin; what
// became of them goes on to package delivery through Options.Changed, and through
// the store.
package subscriptions
