// Package e2e drives the built binary from the outside, as its users do: real
// processes, real HTTP over loopback, real folders, real signals. It imports
// nothing of the hub; what it knows is the contract.
//
// A history checker (history_test.go) records every notification that was
// answered 200 and every delivery, and holds them against the promises of the
// design. The nemesis (nemesis_test.go) torments hubs on real Redis servers at
// random, from a seed that it prints, and has a judge of its own
// (nemesis_judge_test.go); `make nemesis` lets it rage for long.
package e2e
