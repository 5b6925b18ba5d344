package destination

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// desired is a resource as the Source describes it.
type desired struct {
	url     string
	set     string
	more    []string // other sets that do not have a deleted resource any more
	length  int64    // -1: unknown
	digests resourcesync.Digests
	lastMod time.Time
	mirrors []mirror
	// mediaType is what the Source says, and encoding the content codings in which the bytes are
	// stored: length and digests are those of the coded bytes (LNK-10).
	mediaType, encoding string
	// first is the address that is tried first, empty: its own; alternate says that it has another
	// representation. See preference.
	first     string
	alternate bool

	// patches make the new bytes of those of the state before (LNK-04). chain has earlier states, the
	// earliest first, if several changes are carried out at once.
	patches []mirror
	chain   []patchable

	// via is where the Source has the resource from.
	via via

	// collections are those that the Source names. terse: it need not name them and the type here.
	collections []string
	terse       bool

	change         resourcesync.ChangeType
	changedAt      time.Time
	notificationID string

	// unlisted says that no Change List repeats the change, so its deletion is recorded.
	unlisted bool

	force bool  // do not trust the file in the copy
	tries int   // of earlier runs
	again bool  // it comes from a failure, and is dropped if the failure is gone
	once  bool  // if it fails, it is not tried again
	mark  bool  // only record that the set lists it
	held  error // why its file must not be deleted now; nil: it may be deleted

	open func() (io.ReadCloser, error) // its content in a package; nil: it is in none
}

// mirror is a link to the same bytes (duplicate), or to an acceptable replacement (alternate), at an absolute address.
type mirror struct {
	URL       string `json:"url"`
	Alternate bool   `json:"alternate,omitempty"`
	Pri       int    `json:"pri,omitempty"`
	Length    int64  `json:"length"`
	Hash      string `json:"hash,omitempty"`

	Type     string    `json:"type,omitempty"`
	Encoding string    `json:"encoding,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
}

// desiredFrom returns what an entry describes.
func desiredFrom(set string, e *resourcesync.Entry) desired {
	w := desired{
		url: e.Loc, set: set, length: -1, digests: resourcesync.ParseHashes(e.Hash), lastMod: e.LastMod,
		change: e.Change, changedAt: e.Datetime, mediaType: e.Type, encoding: e.Encoding, terse: e.Change != "",
	}
	if e.HasLength && e.Length >= 0 {
		w.length = e.Length
	}
	for _, l := range e.Links {
		if strings.EqualFold(l.Rel, "collection") {
			w.collections = append(w.collections, resourcesync.EncodeURI(l.Href))
			continue
		}
		if strings.EqualFold(l.Rel, "via") {
			w.via = cmp.Or(w.via, viaOf(&l))
			continue
		}
		duplicate, patch := strings.EqualFold(l.Rel, "duplicate"), l.Rel == patchRel
		if !patch && !duplicate && !strings.EqualFold(l.Rel, "alternate") {
			continue
		}
		address, err := resolve(e.Loc, l.Href)
		if err != nil {
			continue // nothing can be asked for there
		}
		m := mirror{URL: address, Alternate: !duplicate, Pri: l.Pri, Length: -1, Hash: l.Hash, Type: l.Type, Encoding: l.Encoding, Modified: l.Modified}
		if m.Pri == 0 {
			m.Pri = 999_999
		}
		if l.HasLength {
			m.Length = l.Length
		}
		if patch {
			w.patches = append(w.patches, m)
			continue
		}
		w.mirrors = append(w.mirrors, m)
	}
	slices.SortStableFunc(w.mirrors, func(a, b mirror) int {
		switch {
		case a.Alternate == b.Alternate:
			return cmp.Compare(a.Pri, b.Pri)
		case a.Alternate:
			return 1
		}
		return -1
	})
	w.mirrors, w.patches = w.mirrors[:min(len(w.mirrors), mirrorsKept)], w.patches[:min(len(w.patches), patchesKept)]
	return w
}

// asListed returns what an entry of a list or dump of resources describes: that the resource
// exists. Its change type is ignored, so that it cannot delete more than Options.MaxDelete
// allows.
func asListed(w desired) desired {
	w.change, w.changedAt, w.terse = "", time.Time{}, false
	return w
}

// Waits between the tries of a failure, while following.
const (
	againFirst = 2 * time.Second
	againMax   = time.Hour
)

// backoff returns the wait after so many tries in a row: 2 s, 4 s, and so on up to most.
func backoff(tries int, most time.Duration) time.Duration {
	return min(againFirst<<min(tries, 12), most)
}

// failure returns what is stored of a resource that could not be fetched or deleted.
func (w *desired) failure(why error) *failure {
	wait := backoff(w.tries, againMax)
	return &failure{
		Set: w.set, Change: w.change, Length: w.length, Hash: w.digests.String(), LastMod: w.lastMod, Links: w.mirrors, Patches: w.patches, Chain: w.chain,
		Type: w.mediaType, Encoding: w.encoding, Collections: w.collections, Via: w.via,
		Why: why.Error(), Held: w.held != nil, Emptied: errors.Is(w.held, errEmptied), Tries: w.tries + 1, NextAt: time.Now().Add(wait), ChangedAt: w.changedAt,
	}
}

// isDue reports whether it is time to try again. No wait is longer than againMax: then the clock was set back.
func (f *failure) isDue(now time.Time) bool {
	wait := f.NextAt.Sub(now)
	return wait <= 0 || wait > againMax
}

// again returns what is wanted of a resource that failed.
func (f *failure) again(url string) desired {
	return desired{
		url: url, set: f.Set, length: f.Length, digests: resourcesync.ParseHashes(f.Hash), lastMod: f.LastMod, mirrors: f.Links, patches: f.Patches, chain: f.Chain,
		mediaType: f.Type, encoding: f.Encoding, collections: f.Collections, via: f.Via, terse: true,
		change: f.Change, changedAt: f.ChangedAt, tries: f.Tries, again: true,
	}
}

// leavingSets returns the sets that do not have a deleted resource any more.
func (w *desired) leavingSets() []string { return append([]string{w.set}, w.more...) }

// membershipChange returns what the set says about its membership; nil: nothing new.
func (w *desired) membershipChange() *membershipChange {
	switch {
	case w.change.Removes():
		return &membershipChange{sets: w.leavingSets(), leaves: true, at: w.changedAt}
	case w.again:
		return nil
	}
	return &membershipChange{sets: []string{w.set}, at: w.changedAt}
}
