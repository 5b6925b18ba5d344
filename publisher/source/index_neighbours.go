package source

import (
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// neighbourhood is how the paths of resources depend on each other. Nil functions: they don't.
type neighbourhood struct {
	// rivals are the other paths with the URL of a path. The index has only one of them.
	rivals func(path string) []string
	// related are the paths whose entry depends on whether there is a resource at a path. When
	// it comes or goes, they are logged as updated.
	related func(path string) []string
	// nested: there may be resources at a path and below it, which no folder can have. Their
	// bytes lie elsewhere.
	nested bool
}

// rival returns the resource that has the URL of a path already; empty: there is none.
func (n *neighbourhood) rival(tx *boltfile.Tx, path string) string {
	if n.rivals == nil || isURL(path) {
		return ""
	}
	for _, p := range n.rivals(path) {
		if tx.Bucket(bucketResources).Get([]byte(p)) != nil {
			return p
		}
	}
	return ""
}

// isBelow reports whether a path is below that of another resource, so that no folder can have
// both.
func (s *Snapshot) isBelow(path string) (bool, error) {
	if !s.x.near.nested || isURL(path) {
		return false, nil
	}
	for above := range foldersAbove(path) {
		if r, err := s.get(above); r != nil || err != nil {
			return true, err
		}
	}
	return false, nil
}

// rival does the same outside of a transaction.
func (x *Index) rival(path string) (rival string, err error) {
	if x.near.rivals == nil {
		return "", nil
	}
	err = x.view(func(tx *boltfile.Tx) error {
		rival = x.near.rival(tx, path)
		return nil
	})
	return rival, err
}

// collision returns two resources with one URL; empty: there are none.
func (x *Index) collision() (path, rival string, err error) {
	for page, err := range x.under("") {
		if err != nil {
			return "", "", err
		}
		for _, path := range page {
			if rival, err := x.rival(path); rival != "" || err != nil {
				return path, rival, err
			}
		}
	}
	return "", "", nil
}

// cameOrWent remembers that there was no resource at a path, or is none any more.
func (b *batch) cameOrWent(path string) {
	if b.near.related != nil && b.head.ready && !isURL(path) {
		b.moved = append(b.moved, path)
	}
}

// relate logs as updated what depends on the resources that came or went, unless the batch
// has logged a change of it anyway.
func (b *batch) relate() error {
	done := make(map[string]bool)
	for _, path := range b.moved {
		done[path] = true
	}
	for _, path := range b.moved {
		for _, p := range b.near.related(path) {
			if done[p] {
				continue
			}
			done[p] = true
			r, err := getRecord(b.tx, p)
			if err == nil && r != nil {
				err = b.log(resourcesync.Updated, r)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
