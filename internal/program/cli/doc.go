// Package cli has the commands of rshub for operators and for trying it out: a client of
// the operator's API (info, topic, sub, notification), the check of documents (validate),
// and a callback that shows what it receives (callback). All three programs use its exit
// codes, flags and log.
//
// A command on one item finds the item that its argument names (find.go), asks before it
// destroys something (confirm.go), and prints a table (table.go), names and values, or the
// API's JSON. The checks of validate are in internal/engine/examine.
//
// Data goes to stdout, everything else to stderr. The package reads the API's JSON types
// from package admin, and knows nothing of a running hub. The programs below cmd/ put the
// commands together.
package cli
