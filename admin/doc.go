// Package admin is the operator's listener as an http.Handler: health, and a
// JSON API over topics and subscriptions.
//
// It reads through the interfaces of journal and subscriptions, never from a
// store itself, and answers in its own JSON types, which the command line
// decodes again. What only the running hub knows (its addresses, its nodes, its
// readiness) it is given as functions. It starts no goroutine.
package admin
