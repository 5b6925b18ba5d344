// Package draws says how many random histories a test draws. `make test` draws few of each, and
// `make histories TIMES=20` twenty times as many.
package draws

import (
	"fmt"
	"iter"
	"os"
	"strconv"
)

// times is the variable with the factor, and first the one with the first seed, which repeats a history that failed.
const (
	times = "RSHUB_HISTORIES_TIMES"
	first = "RSHUB_HISTORIES_FIRST"
)

// Seeds are the seeds of a test that draws n histories unless the environment says more: from 0, or from RSHUB_HISTORIES_FIRST.
func Seeds(n uint64) iter.Seq[uint64] {
	from, count := read(first, 0), n*Times()
	return func(yield func(uint64) bool) {
		for seed := from; seed < from+count; seed++ {
			if !yield(seed) {
				return
			}
		}
	}
}

// Times is how many times as much as usual the tests draw: RSHUB_HISTORIES_TIMES, or 1.
func Times() uint64 { return read(times, 1) }

// read is the number in a variable. It panics if there is something else: a typing error would look like a test that passed.
func read(name string, unset uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return unset
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("%s=%s is not a number", name, s))
	}
	return n
}
