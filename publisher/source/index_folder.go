package source

import (
	"bytes"
	"iter"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// child is what the index has directly in a folder.
type child struct {
	name   string  // with "/" at the end where it is a folder
	record *record // nil for a folder
}

// children yields what the index has directly in a folder ("": the top), in the
// order of the bytes of name. After an error it ends.
func (x *Index) children(folder string) iter.Seq2[child, error] {
	prefix := ""
	if folder != "" {
		prefix = folder + "/"
	}
	return paged([]byte(prefix), func(from []byte) (page []child, next []byte, more bool, err error) {
		page, next, err = x.childrenFrom(prefix, from)
		return page, next, len(page) == pageSize, err
	})
}

// childrenFrom returns a page of children, and the key at which the next page begins.
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
	prefix := ""
	if path != "" {
		prefix = path + "/"
	}
	return paged("", func(after string) (pages [][]string, next string, more bool, err error) {
		var page []string
		err = x.view(func(tx *boltfile.Tx) error {
			b := tx.Bucket(bucketResources)
			if after == "" && path != "" && b.Get([]byte(path)) != nil {
				page = append(page, path)
			}
			c := b.Cursor()
			for k, _ := c.Seek([]byte(max(after, prefix))); bytes.HasPrefix(k, []byte(prefix)) && k != nil && len(page) < pageSize; k, _ = c.Next() {
				page = append(page, string(k))
			}
			return nil
		})
		if len(page) == 0 {
			return nil, "", false, err
		}
		return [][]string{page}, page[len(page)-1] + "\x00", len(page) == pageSize, err
	})
}
