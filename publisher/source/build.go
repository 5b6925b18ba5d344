package source

import "context"

// Build scans the folders once and writes the documents that are due, instead of
// Run. Where Schedule.ChangeList, ResourceList or Dump is negative there are none
// of these.
func (s *Source) Build(ctx context.Context) error {
	for _, x := range s.sets {
		if err := x.packager.folder.Scan(ctx); err != nil {
			return err
		}
		steps := []struct {
			wanted bool
			do     work
		}{
			{x.composer.schedule.ChangeList > 0, x.buildChangeLists},
			{x.composer.schedule.ResourceList > 0, x.buildResourceList},
			{true, x.buildDumps},
			{x.composer.schedule.ChangeList > 0, x.buildChangeLists}, // of what the dumps left out
			{x.composer.schedule.ChangeList > 0, onRing(x.buildRecent)},
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
