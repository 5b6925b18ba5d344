package storetest

import "testing"

func TestReferencePassesTheSuite(t *testing.T) {
	Run(t, func(*testing.T) *Harness { return NewMemory().Harness() })
}
