package destination

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"syscall"
)

// explainedError is an error with a text that says what happened in the words of an operator.
type explainedError struct {
	text string
	err  error
}

func (e *explainedError) Error() string { return e.text }
func (e *explainedError) Unwrap() error { return e.err }

// diskFull explains the error of a disk that is full, or of a quota that is used up: dir is a folder
// there. Other errors stay as they are.
func diskFull(err error, dir string) error {
	var explained *explainedError
	switch {
	case errors.As(err, &explained):
		return err
	case errors.Is(err, syscall.ENOSPC):
		return &explainedError{fmt.Sprintf("the disk of %s is full; make room there, and the copy continues from here", dir), err}
	case errors.Is(err, syscall.EDQUOT):
		return &explainedError{fmt.Sprintf("the disk quota for %s is used up; make room there or raise the quota, and the copy continues from here", dir), err}
	}
	return err
}

// forbidden explains the error of a path of the copy, if this user may not use the folder that it is in. Other errors stay as
// they are.
func (ft *fetcher) forbidden(err error, p string) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &explainedError{fmt.Sprintf("this user may not read and change the folder %s; allow that, or run as the user that may", filepath.Join(ft.dir, path.Dir(p))), err}
}
