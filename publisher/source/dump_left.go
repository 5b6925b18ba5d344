package source

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// errStale says that a file is not any more what the index has of it. Such a one
// is left out of a dump: the change that it is comes after it in a Change List
// (see renew).
var errStale = errors.New("the file has changed")

// sameBytes reports whether a file with another time has the bytes of the resource
// all the same, as when it was touched: no change is going to tell of that.
func sameBytes(f *os.File, r *Resource) (bool, error) {
	if info, err := f.Stat(); err != nil || info.Size() != r.Length {
		return false, err
	}
	h := resourcesync.NewHasher(resourcesync.SHA256)
	if _, err := io.Copy(h, io.LimitReader(f, r.Length+1)); err != nil {
		return false, err
	}
	_, err := f.Seek(0, io.SeekStart)
	d := h.Digests()
	return err == nil && bytes.Equal(d.Sum(resourcesync.SHA256), r.SHA256[:]), err
}

// leastLeft is how many resources have to be left out of a Resource Dump for it not
// to be shown, if they are most.
const leastLeft = leastHeld

// errEmptied says that most of the folder was gone or another when it was packed.
var errEmptied = errors.New("most files of the folder are gone or not as they were when it was scanned")

// renew tells of what was left out of a dump as updated, so that whoever begins with
// the dump fetches it: the file may be again what it was before anybody looks at it,
// and then there would be no change to tell of.
func (s *set) renew(left []Resource) error {
	if len(left) == 0 {
		return nil
	}
	n, err := s.index.renew(time.Now(), left)
	if n > 0 {
		s.moved.ring()
	}
	return err
}

// inStep reports whether the index has what is in the folder, but for what has just
// changed. It may not have before the first scan, nor while the folder or most of it
// is away: a dump would leave out what it lacks, and tell of that as updated.
func (s *set) inStep() bool {
	st := s.packager.folder.Status()
	return !st.Scanned.IsZero() && st.Err == nil && st.Held == 0
}
