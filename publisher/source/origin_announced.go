package source

import (
	"context"
	"os"
	"time"
)

// announced is the origin of a set whose changes are announced. It has nothing to scan.
type announced struct{}

// openAnnounced makes the set one whose changes are announced.
func openAnnounced(s *set) error {
	s.packager.origin = announced{}
	s.composer.schedule.ResourceList, s.composer.schedule.Dump = -1, -1
	return s.index.beginAnnounced(time.Now())
}

// Run implements origin.
func (announced) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Scan implements origin.
func (announced) Scan(context.Context) error { return nil }

// Changed implements origin. Source.Announce rings itself.
func (announced) Changed() <-chan struct{} { return nil }

// Bytes implements origin. The bytes lie where the application serves them.
func (announced) Bytes(context.Context, *Resource) (*os.File, bool, error) { return nil, false, nil }

// Status implements origin.
func (announced) Status() FolderStatus {
	return FolderStatus{Ready: true, Watching: true, Scanned: time.Now()}
}

// AcceptDeletions implements origin.
func (announced) AcceptDeletions() {}
