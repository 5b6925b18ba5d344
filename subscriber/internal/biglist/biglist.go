package biglist

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	"github.com/rshub/rshub/resourcesync"
)

const (
	entryBytes = 1 << 10 // that an entry takes
	overhead   = 14 << 20
)

// Limits are those of a document of up to so many entries; 0 stands for the 50,000 of the
// protocol. Its bytes grow with the entries, by 1 KiB for each, and are never fewer than
// the protocol's.
func Limits(entries int) resourcesync.Limits {
	l := resourcesync.DefaultLimits
	if entries > 0 {
		l.Entries = entries
		l.Bytes = max(l.Bytes, int64(entries)*entryBytes)
	}
	return l
}

// DumpLimits are those of a package whose manifest has up to so many entries.
func DumpLimits(entries int) resourcesync.DumpLimits {
	l := resourcesync.DefaultDumpLimits
	l.Manifest = Limits(entries)
	l.Files = max(l.Files, 2*l.Manifest.Entries+1)
	return l
}

// Sent is how many bytes are taken of the answer that such a document comes with.
func Sent(entries int) int64 { return Limits(entries).Bytes + overhead }

// Entries goes over the entries of the document of an address. The error of one that is
// over Limits names the option that raises them. At the end large is told of the entries
// of a document that has more than the protocol allows.
func Entries(r interface {
	Entries() iter.Seq2[resourcesync.Entry, error]
}, address string, most int, large func(address string, entries int),
) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		n := 0
		for e, err := range r.Entries() {
			if err != nil {
				yield(e, Explain(err, most))
				return
			}
			if n++; !yield(e, nil) {
				return
			}
		}
		if n > resourcesync.DefaultLimits.Entries && large != nil {
			large(address, n)
		}
	}
}

// Explain adds to the error of a document that is over Limits which option raises them.
func Explain(err error, most int) error {
	var over *resourcesync.Error
	if !errors.As(err, &over) || over.Kind != resourcesync.OverLimit || over.Rule != "DOC-60" {
		return err
	}
	return fmt.Errorf("%w; %s", err, Advice(most))
}

// Advice says which option lets in a document that is over Limits.
func Advice(most int) string {
	return fmt.Sprintf("Options.MaxEntries allows %d entries; raise that if the Source is right", Limits(most).Entries)
}

// Warner returns a function that warns once of each list that has more entries than the
// protocol allows. Several goroutines may call it.
func Warner(log *slog.Logger) func(address string, entries int) {
	var told sync.Map
	return func(address string, entries int) {
		if _, had := told.LoadOrStore(address, true); !had {
			log.Warn("a list has more entries than the protocol allows; it was let in by Options.MaxEntries",
				"event", "large_list", "url", address, "entries", entries, "allowed", resourcesync.DefaultLimits.Entries)
		}
	}
}
