// Package embedstore keeps the journal and the subscriptions of one hub in a folder: a file of
// package boltfile, and beside it one file for each body over 64 KiB. It is the default store,
// and needs no other software.
//
// One goroutine writes. It puts all waiting operations into one transaction, so that many callers
// share one fsync. It answers each of them after that fsync (invariant 1). Reads run in parallel.
//
// The package implements journal.Journal and subscriptions.Store. It makes no decisions: its
// callers decide what may be appended, what is delivered and who may subscribe. If there are
// keys, it seals secrets when it writes them and opens them when it reads them. Data
// comes in from packages hub and subscriptions, and goes out to delivery.
package embedstore
