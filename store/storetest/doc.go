// Package storetest tests stores. A suite has a check for each sentence of the contracts in packages
// journal and subscriptions. A model test compares a store with Memory, the reference, over random
// operations. Mutants are stores with one defect each. The suite has to catch them all, which shows
// that it can fail.
//
// Only tests import it. Memory also serves tests that need a store without durability.
package storetest
