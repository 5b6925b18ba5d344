// Package app puts a hub together and runs it. It is the only place that knows
// every package. It opens the store, gives each part the narrowest interface
// that it can work with, starts the parts in order and stops them in reverse
// order. It decides nothing about notifications or subscriptions.
//
// The order, in start and startParts: both addresses; the store; metrics and
// traces; the operator's listener; outbound calls and the topic check; the public
// listener; deliveries; retention, shards, subscriptions and fetches. So a hub that
// is stopping still answers its publishers, and the operator can watch until the
// end. Each step adds its own stop (stop.go). A start that fails runs the stops that
// were added.
package app
