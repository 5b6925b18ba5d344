package destination

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/resourcesync"
)

// The state is one bbolt file. Values are JSON, except for those of paths and of namesKey.
var (
	filesTable     = table[file]{[]byte("files")}      // by URL
	failedTable    = table[failure]{[]byte("failed")}  // by URL
	membersTable   = table[members]{[]byte("members")} // by URL, if they are not what the other records say
	deletesTable   = table[int]{[]byte("deletes")}     // how many files were deleted within the last hour, by time
	setsTable      = table[setState]{[]byte("sets")}   // by name
	goneTable      = table[deletion]{[]byte("gone")}   // pushed deletions that no Change List repeats, by set and URL
	numbersTable   = table[int64]{[]byte("meta")}      // bytesKey
	pathsBucket    = []byte("paths")                   // URLs by path, folded if the file system folds
	metaBucket     = numbersTable.bucket
	selectionTable = table[Selection]{metaBucket} // selectionKey
	namesKey       = []byte("names")              // the rule that gave files their paths (tree.rename)
)

const (
	auditedKey   = "audited"   // when the copy was audited last while it was followed, in seconds since 1970
	bytesKey     = "bytes"     // of all files together
	selectionKey = "selection" // which resources the copy has
)

const (
	format    = 3 // in 1 and 2, records had no checksums
	stateFile = "copy.db"
)

// file describes a resource in the copy.
type file struct {
	Path string `json:"path"`
	// Set is the set whose description the bytes match. The sets that list the
	// resource are its members.
	Set string `json:"set"`
	// Length and Hash describe the bytes in the copy. Said is set if the Source gave a
	// hash and the bytes match it.
	Length  int64     `json:"length"`
	Hash    string    `json:"hash"`
	Said    bool      `json:"said,omitempty"`
	LastMod time.Time `json:"lastmod,omitzero"`
	// Early says that LastMod was a day that was not over: the resource may have changed again on it.
	Early bool `json:"early,omitempty"`
	// ETag and Modified are the validators of the response.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
	// ChangedAt is the time of the change that brought the file, zero for a baseline.
	ChangedAt time.Time `json:"changed_at,omitzero"`
	// Instead is the alternate or mirror that the bytes came from.
	Instead string `json:"instead,omitempty"`
	// Via is the origin that the Source names.
	Via via `json:"via,omitzero"`
	// Outranked is what another set says of the resource, whose bytes are of a later state that Set described. It counts when
	// Set does not list the resource any more. Nil: nothing else is known.
	Outranked *failure `json:"outranked,omitempty"`

	patched bool // the bytes were just made by a patch
}

// failure is a resource that could not be fetched or deleted.
type failure struct {
	Set         string                  `json:"set"`
	Change      resourcesync.ChangeType `json:"change,omitempty"`
	Length      int64                   `json:"length"` // -1: the Source did not say
	Hash        string                  `json:"hash,omitempty"`
	LastMod     time.Time               `json:"lastmod,omitzero"`
	Links       []mirror                `json:"links,omitempty"`
	Patches     []mirror                `json:"patches,omitempty"`
	Chain       []patchable             `json:"chain,omitempty"`
	Type        string                  `json:"type,omitempty"`
	Encoding    string                  `json:"encoding,omitempty"`
	Collections []string                `json:"collections,omitempty"` // that the entry named
	Via         via                     `json:"via,omitzero"`
	Why         string                  `json:"why"`
	Held        bool                    `json:"held,omitempty"`    // by MaxDelete
	Emptied     bool                    `json:"emptied,omitempty"` // Held, because the list is suddenly empty
	Tries       int                     `json:"tries"`
	NextAt      time.Time               `json:"next_at,omitzero"`
	ChangedAt   time.Time               `json:"changed_at,omitzero"`
}

// setState is the progress of a set.
type setState struct {
	CapabilityList string    `json:"capability_list,omitempty"`
	BaselineAt     time.Time `json:"baseline_at,omitzero"` // of a complete one
	From           string    `json:"from,omitempty"`       // the list or dump that it came from
	// Due is the earliest state of the Source that a new baseline must have, because changes
	// before it are lost. Zero: no baseline is needed.
	Due time.Time `json:"due,omitzero"`
	// Lost is the instant before which changes are lost, where the Source had no list to make up for them. An older list
	// does not do so either. Zero: no changes are lost.
	Lost time.Time `json:"lost,omitzero"`
	// Unread says that the set has only changes, and that these were not read to their end yet.
	Unread bool `json:"unread,omitempty"`
	// Via is the address of the Source that led to the set.
	Via string `json:"via,omitempty"`
	// Way is how Via led to it; 0: that is unknown.
	Way way `json:"way,omitempty"`
	// DumpsUntil is how far Change Dumps were applied, if there is no Change List.
	DumpsUntil time.Time `json:"dumps_until,omitzero"`
	// ETag and Modified are the validators of the list at From, if it has no parts.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
	// Selected is the digest of the selection of the last baseline.
	Selected string `json:"selected,omitempty"`
}

// missed returns the instant before which the copy lacks changes; zero: it lacks none.
func (s setState) missed() time.Time { return later(s.Due, s.Lost) }

// state is what is remembered on disk. It may be shared between goroutines.
type state struct {
	db    *boltfile.DB
	space *space
	n     atomic.Int64          // of files
	moved atomic.Bool           // the status file is out of date
	fault atomic.Pointer[error] // why the file cannot be read any more; nil: it can

	origins origins
}

// ErrInUse says that another process works on the copy now.
var ErrInUse = boltfile.ErrLocked

// stateOptions are those of the file. The file is read as a whole when it is opened. It can
// be made again, so a record that cannot be read counts as missing.
func stateOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{
			filesTable.bucket, pathsBucket, failedTable.bucket, membersTable.bucket, deletesTable.bucket, setsTable.bucket, goneTable.bucket, metaBucket,
		},
		Format: format, Wait: time.Second, Whole: true, PassDamage: true,
		Advice: "Move it away and sync again: files of the copy that are right are not fetched again",
	}
}

// openState opens or creates the state in a folder. It sets the number of bytes in space.
func openState(dir string, space *space) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := disk.Mark(dir); err != nil {
		return nil, err
	}
	db, err := boltfile.Open(filepath.Join(dir, stateFile), stateOptions())
	if err != nil {
		return nil, err
	}
	s := &state{db: db, space: space}
	err = s.update(func(w *writer) {
		s.n.Store(int64(w.Bucket(filesTable.bucket).Len()))
		s.space.files = w.countBytes()
	})
	if err != nil {
		_ = db.Close() // the first error says more
		return nil, fmt.Errorf("opening the state in %s: %w", dir, err)
	}
	return s, nil
}

// reopen continues with the state in another folder, and closes this one. Nothing else may
// use the state meanwhile.
func (s *state) reopen(dir string) error {
	other, err := openState(dir, s.space)
	if err != nil {
		return err
	}
	_ = s.db.Close() // a snapshot
	s.db = other.db
	s.n.Store(other.n.Load())
	s.fault.Store(nil)
	return nil
}

// count returns the number of files.
func (s *state) count() int { return int(s.n.Load()) }
