package source

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// errStale says that a file has changed since it was indexed. A dump leaves it out, and a
// later Change List has the change (see renew).
var errStale = errors.New("the file has changed")

// hasBytesOf reports whether a file with another time still has the bytes of the resource,
// for example because it was only touched: then no change is going to report it.
func hasBytesOf(f *os.File, r *Resource) (bool, error) {
	info, err := f.Stat()
	if err != nil || r.Length >= 0 && info.Size() != r.Length {
		return false, err
	}
	known := resourcesync.ParseHashes(r.Hash())
	h := resourcesync.NewHasher(known.Algorithms()...)
	if _, err := io.Copy(h, io.LimitReader(f, info.Size()+1)); err != nil {
		return false, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return err == nil && (r.Length < 0 || h.Length() == r.Length) && known.Compare(h.Digests()) != resourcesync.Different, err
}

// leastLeft is the least number of resources that a Resource Dump has to leave out to be
// rejected, if they are more than half.
const leastLeft = leastHeld

// errEmptied says that most of the folder was missing or changed when it was packed.
var errEmptied = errors.New("most files of the folder are missing, or have changed since it was scanned")

// renew logs what was left out of a dump as updated, so that a client that begins with the
// dump fetches it. Without that there might be no change to fetch: the file may be as it was
// before, when it is next looked at.
func (s *set) renew(left []Resource) error {
	if len(left) == 0 {
		return nil
	}
	n, err := s.index.renew(time.Now(), left)
	if n > 0 {
		s.moved.Broadcast()
	}
	return err
}

// inStep reports whether the index has what is in the folder, except for what has just
// changed. That is not certain before the first scan, nor while the folder or most of it is
// missing. A dump would then leave out what is missing, and log it as updated.
func (s *set) inStep() bool {
	st := s.packager.origin.Status()
	return !st.Scanned.IsZero() && st.Err == nil && st.Held == 0
}
