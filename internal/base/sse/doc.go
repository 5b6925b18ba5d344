// Package sse reads streams of server-sent events (text/event-stream), as the HTML standard
// describes them, for clients that have to come again where they were. It is strict and
// bounded: what a stranger sends takes no more memory than the caller allows.
package sse
