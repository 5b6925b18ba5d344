package destination

import (
	"context"
	"slices"

	"github.com/rshub/rshub/subscriber"
)

// allowance decides whether the changes of a stream may delete files. All that wait count together, before the first
// of them is carried out: what belongs to one notification or list is held as a whole, or not at all.
type allowance struct {
	set        namedSet
	from       *subscriber.Subscriber
	reconciler *reconciler

	left  int   // changes that were counted and come later
	held  error // why those that were counted delete nothing; nil: they may
	files int64 // what these add to reconciler.coming
}

// most is how many changes may be carried out next at once: of those that were counted together, or of new ones.
func (a *allowance) most() int {
	if a.left > 0 {
		return min(a.left, together)
	}
	return together
}

// check returns why the next changes, which are no more than most, delete nothing; nil: they may.
func (a *allowance) check(ctx context.Context, batch []subscriber.Change) error {
	if a.left > 0 {
		a.left -= len(batch)
		return a.held
	}
	if !slices.ContainsFunc(batch, func(c subscriber.Change) bool { return c.Change.Removes() }) {
		return nil
	}
	files, held := a.reconciler.tooManyOf(changed(a.set, func(yield func(subscriber.Change) bool) {
		for _, c := range batch {
			if !yield(c) {
				return
			}
		}
		for c := range a.from.Ahead(ctx, batch[len(batch)-1].Cursor) {
			if a.left++; !yield(c) {
				return
			}
		}
	}))
	if a.held = held; held != nil {
		a.files = int64(files)
		a.reconciler.coming.Add(a.files)
	}
	return held
}

// done forgets what was counted, if all of it was carried out.
func (a *allowance) done() {
	if a.left == 0 {
		a.end()
	}
}

// end forgets what was counted.
func (a *allowance) end() {
	a.reconciler.coming.Add(-a.files)
	a.held, a.files = nil, 0
}
