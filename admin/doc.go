// Package admin is the operator's listener as an http.Handler: health, and a
// JSON API over topics, notifications and subscriptions.
//
// It reads through the interfaces of journal and subscriptions, never from a
// store itself, and answers in its own JSON types, which the command line
// decodes again. The operator's changes go through Control, or are the journal's
// Reset and Remove; each change is one log line. Options has functions for what only
// the running hub knows: its addresses, its nodes, its readiness. The only goroutines
// that it starts are those of counts, which end with the requests that wait for them.
package admin
