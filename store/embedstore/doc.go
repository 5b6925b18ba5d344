// Package embedstore keeps the journal and the subscriptions of one hub in a
// folder: a file of package boltfile, and beside it one file for each body over 64 KiB. It is
// the default store; nothing has to be installed for it.
//
// One goroutine writes. It takes as many operations as wait for it into one
// transaction, so that many callers share one fsync, and answers each of them
// after that fsync (invariant 1). Reads run beside it.
//
// The package implements journal.Journal and subscriptions.Store and decides
// nothing of its own: what may be appended, what is delivered and who may
// subscribe is said by its callers. Where there are keys, secrets are sealed on
// their way into the file and opened on their way out. The package imports the
// two nouns, boltfile and store/seal. Data comes in from packages hub and
// subscriptions, and goes out to delivery.
package embedstore
