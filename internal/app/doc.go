// Package app puts a hub together and runs it. It is the only place that knows
// every package: it opens the store, hands each part the narrowest interface
// that it can work with, starts them in order and stops them in the reverse
// one. It decides nothing about notifications or subscriptions.
package app
