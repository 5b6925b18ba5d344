package source

import (
	"errors"

	"github.com/rshub/rshub/resourcesync"
)

// sampleStarts are where Samples looks for resources: at the first path after each of these.
var sampleStarts = []string{"", "8", "M", "e", "m", "t"}

// Samples returns a few entries of the Resource Lists, spread over the folders, of those sets
// whose resources another server has (Set.ResourceURL): whoever runs the Source can compare
// what their URLs answer. Sets that are not scanned yet have none.
func (s *Source) Samples() ([]resourcesync.Entry, error) {
	var all []resourcesync.Entry
	for _, x := range s.sets {
		if !x.composer.own() {
			continue
		}
		err := x.index.read(func(snap *Snapshot) error {
			last := ""
			for _, after := range sampleStarts {
				for r, err := range snap.ResourcesAfter(max(after, last)) {
					if err != nil {
						return err
					}
					e, ok, err := x.composer.entry(snap, &r)
					if err != nil {
						return err
					}
					if ok {
						all = append(all, e)
					}
					last = r.Path
					break
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrNoBaseline) {
			return nil, err
		}
	}
	return all, nil
}
