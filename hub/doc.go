// Package hub is the HTTP side of the hub URI: where Sources publish or ping, and
// subscribers subscribe.
//
// Handler tells by method and Content-Type what a request is. A publish goes
// through the stages of publish.go (admit, read, validate, authorise, append)
// and is answered with 200 when it is durable in the journal; there this
// package's part ends, and package delivery takes over. A subscription request
// is checked and handed to package subscriptions, which verifies it later, and
// is answered with 202. A ping (HUB-60) is marked in the store and answered with
// 202; Fetch fetches what is marked, and leads it through the stages of a publish.
// Everything that is refused becomes one problem, looked up in the table of
// problems.go, as plain text or as problem+json.
//
// The package appends to the journal and reads heads; it can't read or deliver
// entries. It calls nobody itself: topics are asked and fetched behind an
// interface (Topics).
package hub
