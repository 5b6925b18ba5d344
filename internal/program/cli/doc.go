// Package cli holds the commands of rshub for operators and for those who try
// it out: a client of the operator's API (info, topic, sub, notification), the
// check of documents (validate), a callback that shows what it gets (callback),
// and the exit codes of all commands.
//
// A command on one item finds what is meant by its argument (find.go), asks where
// something is destroyed (confirm.go), and prints a table, or names and what they
// stand for (table.go), or the JSON as it came.
//
// Validating gets at a document (validate_input.go), looks at it by itself
// (validate_document.go), goes on to what it lists (validate_follow.go) and
// compares the two (validate_agree.go); what is said of it is a verdict
// (validate_verdict.go). It asks hosts that documents name, through egress.
//
// Data goes to stdout and all else to stderr. The package reads the API's JSON
// types from package admin and checks documents with resourcesync; it knows
// nothing of a running hub. cmd/rshub puts the commands together.
package cli
