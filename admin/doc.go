// Package admin is the operator's listener as an http.Handler: health, and a
// JSON API over topics, notifications and subscriptions.
//
// It reads through the interfaces of journal and subscriptions, never from a
// store itself, and answers in its own JSON types, which the command line
// decodes again. What the operator changes goes through Control, or is the
// journal's Reset; each change is one line of the log. What only the running hub
// knows (its addresses, its nodes, its readiness) it is given as functions. It
// starts no goroutine but that of a count, which ends with the requests that wait
// for it.
package admin
