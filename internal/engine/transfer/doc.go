// Package transfer writes what a store holds as JSON lines, and reads them into a
// store. With the retained notifications and their bodies the lines are a backup;
// without, they are an export: the way of topics and subscriptions from the
// embedded store to Redis and back.
//
// The first line says what the file is, the last one counts the others, so that
// a file that was cut short is told from a whole one. Between them are one line
// for each topic, after one for each of its notifications, one for each ping that
// waits, and one for each subscription or request (lines.go).
//
// [Export] reads from a store, [Check] judges a file on its own, and [Import]
// merges it into a store. Merging takes nothing back: what the store has that
// is newer stays, and the same file again changes nothing.
//
// The package knows the nouns and package seal, and no store. Commands reach it
// through internal/program/app.
package transfer
