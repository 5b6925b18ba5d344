// Package cli holds the commands of rshub for operators and for those who try
// it out: a client of the operator's API with its tables (info, topic ls, sub
// ls), the check of a notification (validate), a callback that shows what it
// gets (callback), and the exit codes of all commands.
//
// Data goes to stdout and all else to stderr. The package reads the API's JSON
// types from package admin and checks documents with resourcesync; it knows
// nothing of a running hub. cmd/rshub puts the commands together.
package cli
