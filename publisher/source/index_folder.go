package source

import (
	"bytes"
	"iter"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// child is what the index has directly in a folder.
type child struct {
	name   string  // with "/" at the end where it is a folder
	record *record // nil: a folder
}

// children yields what the index has directly in a folder ("": the top), in the
// order of the bytes of name. After an error it ends.
func (x *Index) children(folder string) iter.Seq2[child, error] {
	prefix := ""
	if folder != "" {
		prefix = folder + "/"
	}
	return func(yield func(child, error) bool) {
		for from, more := []byte(prefix), true; more; {
			var page []child
			var err error
			page, from, err = x.childrenFrom(prefix, from)
			if err != nil {
				yield(child{}, err)
				return
			}
			for _, c := range page {
				if !yield(c, nil) {
					return
				}
			}
			more = len(page) == pageSize
		}
	}
}

// childrenFrom returns a page of children, and the key that the next begins with.
func (x *Index) childrenFrom(prefix string, from []byte) (page []child, next []byte, err error) {
	err = x.view(func(tx *boltfile.Tx) error {
		c := tx.Bucket(bucketResources).Cursor()
		k, v := c.Seek(from)
		for k != nil && bytes.HasPrefix(k, []byte(prefix)) && len(page) < pageSize {
			rest := k[len(prefix):]
			if i := bytes.IndexByte(rest, '/'); i >= 0 {
				page = append(page, child{name: string(rest[:i+1])})
				// What comes after all that is in the folder: "0" follows "/".
				next = append(bytes.Clone(k[:len(prefix)+i]), '/'+1)
				k, v = c.Seek(next)
				continue
			}
			r, err := unpackRecord(string(k), v)
			if err != nil {
				return err
			}
			page = append(page, child{name: string(rest), record: &r})
			next = append(bytes.Clone(k), 0)
			k, v = c.Next()
		}
		return nil
	})
	return page, next, err
}

// under yields the paths of resources at a path and below it, in pages.
func (x *Index) under(path string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		var first []string
		if path != "" {
			r, err := x.record(path)
			if err != nil {
				yield(nil, err)
				return
			}
			if r != nil {
				first = []string{path}
			}
			path += "/"
		}
		for after, more := path, true; more; {
			page := first
			first = nil
			err := x.view(func(tx *boltfile.Tx) error {
				c := tx.Bucket(bucketResources).Cursor()
				for k, _ := c.Seek([]byte(after)); bytes.HasPrefix(k, []byte(path)) && k != nil && len(page) < pageSize; k, _ = c.Next() {
					page = append(page, string(k))
				}
				return nil
			})
			if more = len(page) == pageSize; more {
				after = page[len(page)-1] + "\x00"
			}
			if len(page) == 0 && err == nil {
				return
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}
