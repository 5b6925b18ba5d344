package source

import "context"

// Build scans the folders once and writes the documents that are due. It is an alternative to
// Run. It writes no documents whose Schedule (ChangeList, ResourceList, Dump) is negative.
func (s *Source) Build(ctx context.Context) error {
	for _, x := range s.sets {
		if err := x.packager.origin.Scan(ctx); err != nil {
			return err
		}
		steps := []struct {
			wanted bool
			do     work
		}{
			{x.composer.schedule.ChangeList > 0, x.buildChangeLists},
			{x.composer.schedule.ResourceList > 0, x.buildResourceList},
			{true, x.buildDumps},
			{x.composer.schedule.ChangeList > 0, x.buildChangeLists}, // with what the dumps left out
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
