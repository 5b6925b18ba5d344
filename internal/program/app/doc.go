// Package app puts a hub together and runs it. It is the only place that knows
// every package: it opens the store, hands each part the narrowest interface
// that it can work with, starts them in order and stops them in the reverse
// one. It decides nothing about notifications or subscriptions.
//
// The order, in start and startParts: both addresses; the store; metrics and
// traces; the operator's listener; what calls out and asks topics; retention; the
// public listener; deliveries, subscriptions, fetches. So a hub that ends still
// answers its publishers, and the operator can watch until the end. Each
// step adds its own stop (stop.go). A start that fails runs the stops it has.
package app
