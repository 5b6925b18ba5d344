// Package relay accepts changes from an application in any language, over HTTP on this
// machine or a Unix socket (Relay.Handler), and as lines of JSON (Relay.Lines).
//
// It checks a whole request before it records any of it, and answers when the changes are on
// disk. It does not record them itself: package publisher/source does, and remembers the
// names that the application gave its requests, so that a repeated request gets the first
// answer and records nothing.
package relay
