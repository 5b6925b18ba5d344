// Package websub is the wire vocabulary of WebSub (W3C Recommendation of 23
// January 2018): the forms that subscribers and publishers send to a hub, the
// Link header (RFC 8288), the signature of a delivery, the challenge, and the
// query that a hub appends to a callback.
//
// It reads and writes text and nothing else: no network, no store, no clock, and only the
// standard library, so that hubs, publishers and subscribers may import it. A hub passes
// a parsed SubscribeRequest to package subscriptions, and fetches the topics of a ping. A
// refusal is a *FormError, whose sentence goes to the sender.
//
// Everything here may be used by several goroutines at once. All input may be hostile:
// work and memory are linear in its size, and the sizes of results are bounded by the Max
// constants.
package websub
