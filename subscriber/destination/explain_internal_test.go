package destination

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
)

// An error of the network or the disk says what happened, and is still what it was.
func TestExplained(t *testing.T) {
	other := errors.New("another one")
	full := fmt.Errorf("storing: %w", &fs.PathError{Op: "write", Path: ".rssub/parts/1", Err: syscall.ENOSPC})
	for _, c := range []struct {
		got  error
		want string
		is   error
	}{
		{web.EndedEarly(io.ErrUnexpectedEOF, 1, 3), "the answer ended after 1 of 3 bytes", io.ErrUnexpectedEOF},
		{web.EndedEarly(io.ErrUnexpectedEOF, 7, -1), "the answer ended early, after 7 bytes", io.ErrUnexpectedEOF},
		{web.EndedEarly(other, 1, 3), "another one", other},
		{web.EndedEarly(nil, 3, 3), "", nil},
		{diskFull(full, "/srv/copy"), "the disk of /srv/copy is full; make room there, and the copy continues from here", syscall.ENOSPC},
		{diskFull(diskFull(full, "/srv/copy"), "/elsewhere"), "the disk of /srv/copy is full; make room there, and the copy continues from here", syscall.ENOSPC},
		{diskFull(syscall.EDQUOT, "/srv/copy"), "the disk quota for /srv/copy is used up; make room there or raise the quota, and the copy continues from here", syscall.EDQUOT},
		{diskFull(syscall.EROFS, "/srv/copy"), syscall.EROFS.Error(), syscall.EROFS},
		{diskFull(nil, "/srv/copy"), "", nil},
	} {
		text := ""
		if c.got != nil {
			text = c.got.Error()
		}
		if text != c.want || !errors.Is(c.got, c.is) {
			t.Errorf("%q, want %q; it is %v: %v", text, c.want, c.is, errors.Is(c.got, c.is))
		}
	}
	if !fatal(diskFull(full, "/srv/copy")) || !passing(web.EndedEarly(io.ErrUnexpectedEOF, 1, 3)) {
		t.Error("an explained error is treated in another way")
	}
}

// The disk is full when the bytes of a resource arrive: the error says where.
func TestFullDiskWhileReceiving(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this system has no device that is always full")
	}
	defer func() { _ = f.Close() }()
	p := &partial{
		fetcher: &fetcher{dir: "/srv/copy", maxFile: 8, space: newSpace(&Options{Dir: t.TempDir(), MaxTotal: -1, MinFree: -1})},
		f:       f, hash: resourcesync.NewHasher(resourcesync.SHA256),
	}
	err = p.receive(strings.NewReader("the body"), desired{length: 8})
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "the disk of /srv/copy is full; make room there") {
		t.Errorf("%v", err)
	}
}
