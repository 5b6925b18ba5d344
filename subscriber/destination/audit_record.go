package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rshub/rshub/resourcesync"
)

// errNeverCopied says why nothing is known of a set without a Resource List: no sync has ended well.
var errNeverCopied = errors.New("nothing was copied of the set yet, and it has no Resource List to compare with: sync the copy first, and see why its Resource Dump is refused if that fails")

// errNeverRead says the same of a set that has only changes.
var errNeverRead = errors.New("the changes of the set were not read yet, and it has no Resource List to compare with: sync the copy first, and see why its changes cannot be read if that fails")

// unread returns why nothing is known of a set without a Resource List; nil: what the copy has of it counts.
func (c *Copy) unread(set namedSet, st setState) error {
	switch {
	case st.BaselineAt.IsZero():
		return errNeverCopied
	case st.Unread && !c.streamed(set).After(firstInstant):
		return errNeverRead
	}
	return nil
}

// byRecord compares a set with what the Source said when it was copied.
func (a *audit) byRecord(ctx context.Context, set namedSet) error {
	st := a.states[set.name]
	if due := st.missed(); !due.IsZero() {
		a.unsure = fmt.Sprintf("changes before %s were missed", resourcesync.FormatDatetime(due))
	}
	if err := a.c.unread(set, st); err != nil {
		a.unsure, a.emptied[set.name] = err.Error(), err
	}
	a.report.Recorded = append(a.report.Recorded, set.name)
	return a.compareAll(ctx, a.recorded(set), nil)
}

// recorded yields the resources of a set as they were copied, and those that could not be.
func (a *audit) recorded(set namedSet) iter.Seq2[desired, error] {
	return func(yield func(desired, error) bool) {
		for url, f := range a.c.state.listedFiles() {
			if _, ok := f.members[set.name]; ok && !a.isKept(url) && !yield(a.lastSaid(url, set.name, f.file), nil) {
				return
			}
		}
		for url, f := range a.c.state.failures() {
			_, has := a.c.state.file(url)
			if _, ok := a.c.state.members(url)[set.name]; ok && !has && !f.Change.Removes() && !yield(f.again(url), nil) {
				return
			}
		}
	}
}

// isKept reports whether a file is there only because it could not be deleted, or was not to be.
func (a *audit) isKept(url string) bool {
	f, failed := a.c.state.failure(url)
	return failed && f.Change.Removes()
}

// lastSaid returns what a set said of a resource last: of the change that could not be fetched or, if there is none, when it
// was copied.
func (a *audit) lastSaid(url, set string, f file) desired {
	if failed, ok := a.c.state.failure(url); ok && !failed.Change.Removes() {
		w := failed.again(url)
		w.set = set
		return w
	}
	return recordedWant(url, set, f)
}

// recordedWant returns what a set said of a resource when it was copied.
func recordedWant(url, set string, f file) desired {
	w := desired{url: url, set: set, length: f.Length, lastMod: f.LastMod, terse: true}
	if f.Said {
		w.digests = resourcesync.ParseHashes(f.Hash)
	}
	return w
}
