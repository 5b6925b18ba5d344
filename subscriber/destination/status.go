package destination

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rshub/rshub/subscriber"
)

// SetStatus is what there is to know about the stream of changes of one set.
type SetStatus struct {
	// Set is the URL of its Capability List, or of what it has instead; empty where it
	// has not been worked on since an earlier version.
	Set string `json:"set,omitempty"`
	subscriber.Status
}

// setName is the file, beside a set's stream, that says which set it is: the names of
// folders don't, and the state itself can't be read while a Copy has it.
const setName = "set"

// nameSet notes whose stream is in a folder.
func nameSet(dir, set string) error {
	name := filepath.Join(dir, setName)
	if readSetName(dir) == set {
		return nil
	}
	if err := os.WriteFile(name+".new", []byte(set+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// readSetName is what nameSet noted; empty: nothing.
func readSetName(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, setName)) //nolint:gosec // the folder is the caller's
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// ReadStatus reads the status of each set of the copy whose Options.StateDir is dir, in
// the order of their URLs; it may be worked on in another process. Sets without a Change
// List have no stream, and none. Beside an error are those that could be read.
func ReadStatus(dir string) ([]SetStatus, error) {
	dirs, err := filepath.Glob(filepath.Join(dir, "set-*"))
	if err != nil {
		return nil, err
	}
	var out []SetStatus
	for _, d := range dirs {
		st, failed := subscriber.ReadStatus(d)
		if failed != nil {
			err = failed
			continue
		}
		out = append(out, SetStatus{readSetName(d), st})
	}
	slices.SortStableFunc(out, func(a, b SetStatus) int { return cmp.Compare(a.Set, b.Set) })
	return out, err
}
