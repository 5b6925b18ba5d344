// Package e2e drives the built binary from the outside, as its users do: real
// processes, real HTTP over loopback, real folders, real signals. It imports
// nothing of the hub; what it knows is the contract.
//
// A history checker (history_test.go) records every notification that was
// answered 200 and every delivery, and holds them against the promises of the
// design.
package e2e
