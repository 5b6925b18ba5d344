// Package examine checks documents of ResourceSync, one by one or a whole Source. `rshub
// validate` and `rspub check` both print what it reports, so they agree on each rule,
// each level and each place.
//
// CheckDocument reads one document from a file, a URL or standard input, and on request
// everything that it lists. CheckSource finds a Source by any of its addresses
// (discover.go), checks the same documents in the same way, and then what only a running
// server can show: resources, topics, hubs and HTTP headers (source.go).
//
// A document is checked alone first (document.go; packages of dumps in package.go),
// and then compared with the entry that lists it (follow.go, agree.go). A
// disagreement is reported at that entry, with the rule of the document that the
// entry is in.
//
// All requests go through the function get (fetch.go) and the client in Options.
// They go to hosts that documents name, and change nothing there. Documents are
// read with resourcesync, and Link headers with websub.
package examine
