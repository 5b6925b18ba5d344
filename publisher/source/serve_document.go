package source

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
		name, tag, packed := filepath.Join(s.dir, d.File), d.SHA256[:32], d.Packed && acceptsGzip(r.Header.Values("Accept-Encoding"))
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

// acceptsGzip reports whether an answer may be compressed, by the values of Accept-Encoding. It
// may not if the client says nothing or prefers identity.
func acceptsGzip(values []string) bool {
	const unsaid = -1
	gzip, wildcard, identity := float64(unsaid), float64(unsaid), 0.0
	for element := range strings.SplitSeq(strings.Join(values, ","), ",") {
		coding, params, _ := strings.Cut(element, ";")
		q := 1.0
		if v, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(params, " ", "")), "q="); ok {
			var err error
			if q, err = strconv.ParseFloat(v, 64); err != nil || !(q >= 0 && q <= 1) {
				q = 0
			}
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			gzip = max(gzip, q)
		case "*":
			wildcard = q
		case "identity":
			identity = q
		}
	}
	if gzip == unsaid {
		gzip = wildcard
	}
	return gzip > 0 && gzip >= identity
}
