// Package e2e drives the built binary from the outside, as its users do: real
// processes, real HTTP over loopback, real folders, real signals. It imports
// nothing of the hub; what it knows is the contract.
//
// A history checker (history_test.go) records every notification that was
// answered 200 and every delivery, and checks that they fulfil the promises of the design. The nemesis
// (nemesis_test.go) causes random faults in hubs and their Redis servers, from a seed that it prints.
// nemesis_judge_test.go then checks what happened. `make nemesis` runs it for a long time.
package e2e
