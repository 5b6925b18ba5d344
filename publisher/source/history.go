package source

import (
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// history is what the documents of a set need to know about earlier ones. It is stored in
// the register, so it changes together with them.
type history struct {
	// Site is the URL that the documents were written for.
	Site string `json:"site"`
	// Address is where the resources are listed. Moves are its former values. Leaving is the next
	// one, if resources are being logged as deleted at Address. Arriving says that resources were
	// logged as deleted at the last of Moves, and not yet as created.
	Address  address  `json:"address,omitzero"`
	Moves    []move   `json:"moves,omitempty"`
	Leaving  *address `json:"leaving,omitempty"`
	Arriving bool     `json:"arriving,omitempty"`
	// The open Change List begins at From, with the change after After. Its document is
	// Open, and its last change is Last, of the time LastAt (zero: unknown).
	From   time.Time `json:"from"`
	After  uint64    `json:"after"`
	Open   string    `json:"open"`
	Last   uint64    `json:"last"`
	LastAt time.Time `json:"last_at,omitzero"`
	// Recent is what the Change List of recent changes has, if there are Periods.
	Recent recent `json:"recent,omitzero"`
	// Periods are the closed Change Lists, oldest first.
	Periods []period `json:"periods,omitempty"`
	// List is the Resource List, and Lists are those in the archive. Dumps are the Resource
	// Dumps. The oldest is first.
	List  collection   `json:"list"`
	Lists []collection `json:"lists,omitempty"`
	Dumps []collection `json:"dumps,omitempty"`
	// Notices wait to be recorded for the framework channel. Noticed is the number of the
	// newest one that there ever was.
	Notices []notice `json:"notices,omitempty"`
	Noticed uint64   `json:"noticed"`
	// Offset is added to the numbers of changes before they are recorded. It is 0 unless an earlier
	// version began an index anew, and counted from 1 again.
	Offset uint64 `json:"offset,omitempty"`
	// Skipped is the beginning of the log, if it was logged that the outbox lacks changes before it.
	Skipped uint64 `json:"skipped,omitempty"`
	// Capabilities has a word for each entry of the Capability List.
	Capabilities []string `json:"capabilities,omitempty"`
}

func (h history) clone() history {
	h.Moves = slices.Clone(h.Moves)
	h.Periods = slices.Clone(h.Periods)
	h.Lists = slices.Clone(h.Lists)
	h.Dumps = slices.Clone(h.Dumps)
	h.Notices = slices.Clone(h.Notices)
	return h
}

// newest returns the highest number and the latest time that documents have.
func (h *history) newest() place {
	p := place{h.Last, max(h.LastAt.UnixMicro(), h.From.UnixMicro(), h.List.At.UnixMicro())}
	for _, c := range append([]collection{h.List}, slices.Concat(h.Lists, h.Dumps)...) {
		p.seq = max(p.seq, c.Last)
	}
	for _, m := range h.Moves {
		p.seq = max(p.seq, m.Through)
	}
	return p
}

// period is a closed Change List: the changes from From, and before Until.
type period struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Its changes are those after After up to Last.
	After uint64 `json:"after"`
	Last  uint64 `json:"last"`
	// Path is the path of its Change List. Indexed says that the index of Change Lists
	// has it, and not only the archive.
	Path    string `json:"path"`
	Indexed bool   `json:"indexed"`
	// Dump is the path of its Change Dump, and Packages are those of the dump. Dump is
	// empty until the dump is written.
	Dump     string      `json:"dump,omitempty"`
	Packages []packaging `json:"packages,omitempty"`
}

// packaging is a package of a dump: the state at At, or the changes from From until Until.
type packaging struct {
	Path  string    `json:"path"`
	At    time.Time `json:"at,omitzero"`
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// collection is a Resource List or Resource Dump of the state at At.
type collection struct {
	At       time.Time   `json:"at"`
	Last     uint64      `json:"last"`    // the last change before At
	Written  time.Time   `json:"written"` // by the clock, and not by the resources
	Path     string      `json:"path"`
	Parts    []string    `json:"parts,omitempty"`
	Packages []packaging `json:"packages,omitempty"`
}

// paths are the paths of the collection and of all that it lists.
func (x *collection) paths() []string {
	return append(pathsOf(x.Packages), append(slices.Clone(x.Parts), x.Path)...)
}

// dumpPaths are the paths of the Change Dump of the period and of its packages.
func (p *period) dumpPaths() []string { return append(pathsOf(p.Packages), p.Dump) }

func pathsOf(packages []packaging) []string {
	paths := make([]string, len(packages))
	for i := range packages {
		paths[i] = packages[i].Path
	}
	return paths
}

// notice is something to publish on the framework channel.
type notice struct {
	Seq        uint64                  `json:"seq"`
	At         time.Time               `json:"at"`
	Path       string                  `json:"path"`
	Index      string                  `json:"index,omitempty"`
	Site       bool                    `json:"site,omitempty"` // Path is not within the set
	Capability string                  `json:"capability"`
	Change     resourcesync.ChangeType `json:"change"`
}

// maxNotices bounds how many notices wait. Without a hub there are none.
const maxNotices = 1000

// notify adds a notice.
func (h *history) notify(n notice) {
	h.Noticed++
	n.Seq, n.At = h.Noticed, time.Now().UTC()
	if len(h.Notices) >= maxNotices {
		h.Notices = h.Notices[1:]
	}
	h.Notices = append(h.Notices, n)
}

// recorded removes the notices up to seq.
func (h *history) recorded(seq uint64) {
	h.Notices = slices.DeleteFunc(h.Notices, func(n notice) bool { return n.Seq <= seq })
}
