package source

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rshub/rshub/internal/base/negotiate"
)

// serve answers with the document at a path of the shelf, and reports whether there is one. It
// reads the file and computes nothing: the entity tag was computed when the document was
// written.
func (s *shelf) serve(w http.ResponseWriter, r *http.Request, path string) bool {
	for range 3 { // it may be replaced meanwhile
		d, ok := s.current().Documents[path]
		if !ok {
			return false
		}
		name, tag, packed := filepath.Join(s.dir, d.File), d.SHA256[:32], d.Packed && negotiate.Gzip(r.Header)
		if packed {
			name, tag = name+packedSuffix, tag+"-gzip"
		}
		f, err := os.Open(name) //nolint:gosec // a file of the shelf
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			http.Error(w, "the document cannot be read now; try again later", http.StatusServiceUnavailable)
			return true
		}
		h := w.Header()
		h.Set("Content-Type", d.Type)
		h.Set("ETag", strconv.Quote(tag))
		h.Set("Cache-Control", "no-cache") // a cache may store it, and asks before it uses it
		if d.Packed {
			h.Add("Vary", "Accept-Encoding")
		}
		if packed {
			h.Set("Content-Encoding", "gzip")
			// ServeContent does not set it if there is an encoding.
			if info, err := f.Stat(); err == nil {
				h.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
			}
		}
		http.ServeContent(w, r, "", d.Modified, f)
		_ = f.Close() // it was only read
		return true
	}
	return false
}
