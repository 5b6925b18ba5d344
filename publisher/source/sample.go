package source

import (
	"errors"

	"github.com/rshub/rshub/resourcesync"
)

// sampleStarts are where Samples looks for resources: at the first path after each of these.
var sampleStarts = []string{"", "8", "M", "e", "m", "t"}

// mostSkipped is how many resources with a URL of their own Samples passes over.
const mostSkipped = 1000

// Samples returns a few entries of the Resource Lists, spread over the folders, of those sets
// whose resources another server has (Set.ResourceURL): whoever runs the Source can compare
// what their URLs answer. It leaves out resources with a URL of their own, because whoever wrote the
// catalogue chose these URLs. Sets that are not scanned yet have none. With names of sets it looks at these only.
func (s *Source) Samples(sets ...string) ([]resourcesync.Entry, error) {
	var all []resourcesync.Entry
	for x := range s.named(sets) {
		if !x.composer.own() {
			continue
		}
		err := x.index.read(func(snap *Snapshot) error {
			last := ""
			for _, after := range sampleStarts {
				skipped := 0
				for r, err := range snap.ResourcesAfter(max(after, last)) {
					if err != nil {
						return err
					}
					if last = r.Key(); r.URL != "" {
						if skipped++; skipped == mostSkipped {
							break
						}
						continue
					}
					e, ok, err := x.composer.entry(snap, &r)
					if err != nil {
						return err
					}
					if ok {
						all = append(all, e)
					}
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
