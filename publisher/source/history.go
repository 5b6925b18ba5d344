package source

import (
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// history is what the documents of a set have to know of those before them. It is
// part of the catalogue, so that it changes together with them.
type history struct {
	// Site is the URL that the documents were written for.
	Site string `json:"site"`
	// The open Change List begins at From, with the change after After, in the
	// document Open, and its last change is Last.
	From  time.Time `json:"from"`
	After uint64    `json:"after"`
	Open  string    `json:"open"`
	Last  uint64    `json:"last"`
	// Recent is what the Change List of recent changes has, where there are Periods.
	Recent recent `json:"recent,omitzero"`
	// Periods are those of closed Change Lists, oldest first.
	Periods []period `json:"periods,omitempty"`
	// List is the Resource List, Lists are those in the archive, and Dumps the
	// Resource Dumps, oldest first.
	List  collection   `json:"list"`
	Lists []collection `json:"lists,omitempty"`
	Dumps []collection `json:"dumps,omitempty"`
	// Notices are what the framework channel has yet to be told, and Noticed is
	// the number of the last one that there was.
	Notices []notice `json:"notices,omitempty"`
	Noticed uint64   `json:"noticed"`
	// Offset is added to the numbers of changes before they are recorded.
	Offset uint64 `json:"offset,omitempty"`
	// Capabilities are the entries of the Capability List in a word each.
	Capabilities []string `json:"capabilities,omitempty"`
}

func (h history) clone() history {
	h.Periods = slices.Clone(h.Periods)
	h.Lists = slices.Clone(h.Lists)
	h.Dumps = slices.Clone(h.Dumps)
	h.Notices = slices.Clone(h.Notices)
	return h
}

// period is a closed Change List: the changes from From, and before Until.
type period struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Its changes are those after After up to Last.
	After uint64 `json:"after"`
	Last  uint64 `json:"last"`
	// Path is that of its Change List. Indexed says that the index of Change Lists
	// has it, and not only the archive.
	Path    string `json:"path"`
	Indexed bool   `json:"indexed"`
	// Dump is the path of its Change Dump, empty as long as there is none, and
	// Packages are those of the dump.
	Dump     string      `json:"dump,omitempty"`
	Packages []packaging `json:"packages,omitempty"`
}

// packaging is a package of a dump, and what it is about.
type packaging struct {
	Path      string    `json:"path"`
	At        time.Time `json:"at,omitzero"`
	Completed time.Time `json:"completed,omitzero"`
	From      time.Time `json:"from,omitzero"`
	Until     time.Time `json:"until,omitzero"`
}

// collection is a Resource List or Resource Dump, of the state at At.
type collection struct {
	At        time.Time   `json:"at"`
	Completed time.Time   `json:"completed,omitzero"`
	Last      uint64      `json:"last"`    // the last change before At
	Written   time.Time   `json:"written"` // by the clock, and not by the resources
	Path      string      `json:"path"`
	Parts     []string    `json:"parts,omitempty"`
	Packages  []packaging `json:"packages,omitempty"`
	// Held says that the current document is of this collection, too, so that its
	// packages are to stay when the collection leaves the archive.
	Held bool `json:"held,omitempty"`
}

// notice is something that is told on the framework channel.
type notice struct {
	Seq        uint64                  `json:"seq"`
	At         time.Time               `json:"at"`
	Path       string                  `json:"path"`
	Index      string                  `json:"index,omitempty"`
	Site       bool                    `json:"site,omitempty"` // Path is not within the set
	Capability string                  `json:"capability"`
	Change     resourcesync.ChangeType `json:"change"`
}

// maxNotices bounds how many notices wait. Without a hub to tell them there are
// none.
const maxNotices = 1000

// notify adds a notice.
func (h *history) notify(n notice) {
	h.Noticed++
	n.Seq = h.Noticed
	if len(h.Notices) >= maxNotices {
		h.Notices = h.Notices[1:]
	}
	h.Notices = append(h.Notices, n)
}

// recorded removes the notices up to seq.
func (h *history) recorded(seq uint64) {
	h.Notices = slices.DeleteFunc(h.Notices, func(n notice) bool { return n.Seq <= seq })
}
