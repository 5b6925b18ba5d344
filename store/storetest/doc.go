// Package storetest is what every store has to pass: a suite of checks, one for
// each sentence of the contracts in packages journal and subscriptions; a model
// test that compares a store with Memory, the reference, over random
// operations; and mutants, stores with one defect each, that the suite has to
// catch, so that it is known to be able to fail.
//
// Only tests import it. Memory also serves tests that need a store and not its
// durability.
package storetest
