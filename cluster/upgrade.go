package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Formats are the formats (journal.Format) that a store records: how values are packed in it. The
// numbers have a meaning only for this kind of store.
type Formats struct {
	// Written is the format that hubs write now, and Newest the one that they write
	// once the upgrade is finished. Every hub whose Node.Format is Written or more can
	// work on the store.
	Written, Newest int
	// Closed says that versions which do not know Newest can no longer open the store.
	// That is so from the first step of finishing an upgrade.
	Closed bool
	// Older are the live hubs that do not know Newest.
	Older []Node
}

// Refused returns an *OlderHubsError if the upgrade cannot be finished yet, else nil.
func (f Formats) Refused() error {
	if len(f.Older) == 0 {
		return nil
	}
	return &OlderHubsError{f.Older}
}

// Pending reports whether an upgrade is not finished yet.
func (f Formats) Pending() bool { return f.Written < f.Newest }

// Upgrader is a store whose format a new version changed. Until the operator finishes the
// upgrade, hubs of the version before can work on it, beside those of this version or
// after them. It may be shared between goroutines.
type Upgrader interface {
	// Pending reports whether an upgrade is not finished yet. The answer may be a second old.
	Pending() bool
	// Formats returns what the store records.
	Formats(ctx context.Context) (Formats, error)
	// FinishUpgrade has all hubs write the newest format from now on. That cannot be
	// undone: older versions do not open the store any more. *OlderHubsError: there are
	// hubs of an older version, and nothing changed. If the upgrade is finished already,
	// nothing happens. After any other error, call it again.
	FinishUpgrade(ctx context.Context) error
}

// Known names a hub with its version.
func (n Node) Known() string {
	return fmt.Sprintf("%s (%s)", cmp.Or(n.Name, n.ID), cmp.Or(n.Version, "of an unknown version"))
}

// OlderHubsError names the live hubs that do not know the newest format of their store.
type OlderHubsError struct{ Hubs []Node }

func (e *OlderHubsError) Error() string {
	names := make([]string, 0, len(e.Hubs))
	for _, n := range e.Hubs {
		names = append(names, n.Known())
	}
	return "hubs of an older version are running: " + strings.Join(names, ", ") + ". Upgrade or stop them first"
}

// ErrUpgradeRuns is returned by FinishUpgrade while another call is at work.
var ErrUpgradeRuns = errors.New("another call is finishing it already")
