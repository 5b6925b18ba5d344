package source

import "context"

// Build scans the folders once and writes the documents that are due, instead of
// Run. Where Schedule.ChangeList, ResourceList or Dump is negative there are none
// of these.
func (s *Source) Build(ctx context.Context) error {
	for _, x := range s.sets {
		if err := x.folder.Scan(ctx); err != nil {
			return err
		}
		steps := []struct {
			wanted bool
			do     work
		}{
			{x.schedule.ChangeList > 0, x.buildChangeLists},
			{x.schedule.ResourceList > 0, x.buildResourceList},
			{true, x.buildDumps},
			{x.schedule.ChangeList > 0, x.buildChangeLists}, // of what the dumps left out
			{x.schedule.ChangeList > 0, onRing(x.buildRecent)},
		}
		for _, step := range steps {
			if !step.wanted {
				continue
			}
			if _, err := step.do(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
