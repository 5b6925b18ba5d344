// Package hub is the HTTP side of the hub URI: Sources publish or ping here, and
// subscribers subscribe.
//
// Handler decides by method and Content-Type what a request is. A publish goes through
// the stages that publish.go lists: admit, read, validate, authorise, append. It is
// answered with 200 when it is durable in the journal. There this package's part ends, and
// package delivery takes over. A subscription request is checked and passed to package
// subscriptions, which verifies it later; it is answered with 202. A ping (HUB-60) is
// recorded in the store and answered with 202. Fetch fetches the pinged topics, and runs
// the stages from validate on for what they serve. Every refusal is one of the problems in the table
// of problems.go, and is sent as plain text or as problem+json.
//
// The package appends to the journal and reads heads. It cannot read or deliver entries.
// It makes no requests itself: it asks and fetches topics through an interface (Topics).
package hub
