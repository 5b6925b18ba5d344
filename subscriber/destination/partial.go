package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
)

// partsDir is the folder of resources that are not whole yet. It is in the copy, so they
// can be renamed into it. A file with the suffix notes has what is needed to continue one.
// The packages of dumps have the suffix whole.
const (
	partsDir  = stateName + "/parts"
	notes     = ".json"
	whole     = ".whole"
	partsKept = 7 * 24 * time.Hour
)

// partialName returns the name of the partial of a URL in the copy.
func partialName(url string) string { return partsDir + "/" + digest(url, 16) }

// spaceEvery is how many bytes are written between two checks of the free disk.
const spaceEvery = 1 << 20

// partial is a resource that is being fetched. A large one stays if the connection breaks. A
// later try continues it if the server can prove that the resource is still the same.
type partial struct {
	fetcher *fetcher
	name    string // in the copy
	f       *os.File
	hash    *resourcesync.Hasher
	have    int64 // bytes from an earlier try
	size    int64 // bytes that it has now
	rest    int64 // bytes that follow those of an earlier try, as the server says; 0: it sends all
	old     int64 // bytes of the file that it replaces
	apart   bool  // it is a package, which does not belong to the copy
	// reserved is how many bytes Options.MaxTotal has room for, and room how many the disk
	// had at the last check.
	reserved, room int64
	from           validator
	unasked        string // says that the response has a Content-Encoding that was not requested
	noted          bool   // there is a file with from
	keep           bool
	moved          bool
}

// validator recognises an earlier response.
type validator struct {
	ETag string `json:"etag"` // a strong one
	URL  string `json:"url"`  // of the request
}

// openPartial opens a partial for a path of the copy. With resume it continues an earlier
// one of the same address, if there is one. If there is no room for the length that the
// Source states, the error is a *fullError.
func (ft *fetcher) openPartial(w desired, address, to string, resume bool) (_ *partial, err error) {
	defer func() { err = diskFull(err, ft.dir) }()
	of := w.digests.Algorithms()
	if len(of) == 0 {
		of = []resourcesync.Algorithm{resourcesync.SHA256}
	}
	p := &partial{fetcher: ft, name: partialName(w.url), old: ft.tree.replaced(w, to), apart: strings.HasSuffix(to, whole), hash: resourcesync.NewHasher(of...)}
	how := os.O_RDWR | os.O_CREATE | os.O_TRUNC
	if resume {
		if raw, err := ft.tree.root.ReadFile(p.name + notes); err == nil {
			p.noted = true
			size, ok := ft.tree.size(p.name)
			if json.Unmarshal(raw, &p.from) == nil && p.from.URL == address && p.from.ETag != "" && ok && (w.length < 0 || size < w.length) {
				p.have, how = size, how&^os.O_TRUNC
			}
		}
	}
	if p.f, err = ft.create(p.name, how); err != nil {
		return nil, err
	}
	p.size, p.room = p.have, p.have
	err = p.reserve(max(p.have, w.length))
	if more := w.length - p.have; err == nil && more > 0 {
		err = ft.space.free(more)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// create opens the file of a partial. It makes the folder of partials again if somebody removed it.
func (ft *fetcher) create(name string, how int) (*os.File, error) {
	root := ft.tree.root
	f, err := root.OpenFile(name, how, 0o644)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := root.MkdirAll(partsDir, 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil, &refusedError{fmt.Errorf("the folder of the copy, %s, was removed: put it back if you have it, then start again", ft.dir)}
	} else if err != nil {
		return nil, err
	}
	return root.OpenFile(name, how, 0o644)
}

// reserve reserves so many bytes within Options.MaxTotal. A package reserves nothing: its
// content would never fit beside it.
func (p *partial) reserve(bytes int64) error {
	takes := bytes
	if p.apart {
		takes = 0
	}
	if err := p.fetcher.space.reserve(p.name, takes, p.old); err != nil {
		return err
	}
	p.reserved = bytes
	return nil
}

// Write implements io.Writer: it makes room for the bytes that are written next.
func (p *partial) Write(b []byte) (int, error) {
	size := p.size + int64(len(b))
	if size > p.reserved {
		if err := p.reserve(size); err != nil {
			return 0, err
		}
	}
	if size > p.room {
		more := max(spaceEvery, int64(len(b)))
		if err := p.fetcher.space.free(more); err != nil {
			return 0, err
		}
		p.room = p.size + more
	}
	p.size = size
	return len(b), nil
}

// header returns the header of the request for bytes that are stored in these content codings.
func (p *partial) header(in []string) http.Header {
	h := http.Header{"Accept-Encoding": {"identity"}}
	if len(in) > 0 {
		h.Set("Accept-Encoding", strings.Join(in, ", ")+", identity;q=0.5")
	}
	if p.have > 0 {
		p.keep = true // even if this try fails
		h.Set("Range", "bytes="+strconv.FormatInt(p.have, 10)+"-")
		h.Set("If-Range", p.from.ETag)
	}
	return h
}

// begin prepares the partial for the body of a response of 200 or 206. Bytes that are stored in
// content codings may come with a Content-Encoding that says so (LNK-10), or without. Another one, such as that of
// Apache for any .gz file, counts only if a hash shows whether these bytes are those of the resource.
func (p *partial) begin(resp *http.Response, address string, w desired) (err error) {
	defer func() { err = diskFull(err, p.fetcher.dir) }()
	enc := strings.Join(resp.Header.Values("Content-Encoding"), ", ")
	if is := codings(enc); !strings.EqualFold(enc, "identity") && enc != "" && !slices.Equal(is, codings(w.encoding)) {
		p.unasked = fmt.Sprintf("the response has Content-Encoding %s, which was not requested", enc)
		if len(w.digests.Algorithms()) == 0 {
			return &refusedError{errors.New(p.unasked)}
		}
	}
	if resp.StatusCode == http.StatusPartialContent {
		length, ok := restOf(resp.Header.Get("Content-Range"), p.have)
		if p.have == 0 || !ok {
			return errors.New("the response has a part that was not requested")
		}
		p.rest = length - p.have
		if resp.Header.Get("ETag") != p.from.ETag { // the server ignores If-Range
			return errors.New("the response has a part of another state than the bytes before it")
		}
		if _, err := io.Copy(p.hash, io.NewSectionReader(p.f, 0, p.have)); err != nil {
			return err
		}
		if _, err := p.f.Seek(p.have, io.SeekStart); err != nil {
			return err
		}
	} else {
		if p.have > 0 {
			if err := p.f.Truncate(0); err != nil {
				return err
			}
		}
		p.have, p.size, p.room = 0, 0, 0
		if err := p.remember(resp, address); err != nil {
			return err
		}
	}
	limit := p.fetcher.limit(w)
	switch size := p.have + resp.ContentLength; {
	case resp.ContentLength < 0 || size <= min(limit, p.reserved):
		return nil
	case size > limit:
		return tooLong(fmt.Sprintf("%d bytes, more", size), limit, w)
	default:
		return p.reserve(size)
	}
}

// tooLong returns the error for a resource that has more bytes than the limit.
func tooLong(has string, limit int64, w desired) error {
	allows := "Options.MaxFile allows; raise that if the Source is right"
	if limit == w.length {
		allows = "the Source says"
	}
	return &mismatchError{what: fmt.Sprintf("it has %s than the %d bytes that %s", has, limit, allows)}
}

// restOf returns the length of a resource of which a Content-Range has all bytes from an offset on. A server may answer with
// fewer of them, and nothing else would show that where the Source gives neither length nor hash.
func restOf(contentRange string, from int64) (length int64, ok bool) {
	within, total, _ := strings.Cut(contentRange, "/")
	length, err := strconv.ParseInt(total, 10, 64)
	return length, err == nil && length > from && within == fmt.Sprintf("bytes %d-%d", from, length-1)
}

// remember stores how to continue a large partial.
func (p *partial) remember(resp *http.Response, address string) error {
	tag := resp.Header.Get("ETag")
	p.keep = resp.ContentLength >= resumeFrom && strings.HasPrefix(tag, `"`)
	if !p.keep {
		return nil
	}
	raw, _ := json.Marshal(validator{ETag: tag, URL: address}) // cannot fail
	p.noted = true
	return p.fetcher.tree.root.WriteFile(p.name+notes, raw, 0o600)
}

// receive reads the body, up to the limit of the resource.
func (p *partial) receive(body io.Reader, w desired) error {
	limit := p.fetcher.limit(w)
	n, err := io.Copy(io.MultiWriter(p, p.f, p.hash), io.LimitReader(body, max(0, limit-p.have)+1))
	if err != nil {
		if full(err) {
			p.keep = false
		}
		return diskFull(egress.WithoutURL(err), p.fetcher.dir)
	}
	if p.have+n > limit {
		p.keep = false
		return tooLong("more", limit, w)
	}
	switch {
	case n < p.rest:
		return io.ErrUnexpectedEOF
	case p.rest > 0 && n > p.rest: // so nobody knows which bytes these are
		p.keep = false
		return fmt.Errorf("the response has more bytes than the %d of its Content-Range", p.rest)
	}
	return nil
}

// verify compares the received bytes with what the Source says.
func (p *partial) verify(w desired, got resourcesync.Digests) error {
	if n := p.hash.Length(); w.length >= 0 && n != w.length {
		return &mismatchError{fmt.Sprintf("it has %d bytes, and the Source says %d", n, w.length), n < w.length}
	}
	if got.Compare(w.digests) == resourcesync.Different {
		return &mismatchError{what: fmt.Sprintf("its hash is %s, and the Source says %s", got, w.digests)}
	}
	return nil
}

// moveIn verifies a partial, renames it to its place, and returns the record.
func (p *partial) moveIn(w desired, to string) (file, error) {
	p.keep = false
	got := p.hash.Digests()
	if err := p.verify(w, got); err != nil {
		return file{}, err
	}
	err := p.f.Close()
	if err == nil {
		p.fetcher.tree.setTime(p.name, w.lastMod)
		err = p.fetcher.forbidden(p.place(to), to)
	}
	if err != nil {
		return file{}, diskFull(err, p.fetcher.dir)
	}
	p.moved = true
	return file{
		Path: to, Set: w.set, Length: p.hash.Length(), Hash: got.String(), Said: got.Compare(w.digests) == resourcesync.Equal, LastMod: w.lastMod, Early: isToday(w.lastMod),
	}, nil
}

// place renames a partial to its place. It makes the folders above, and removes an empty folder that is in the place.
func (p *partial) place(to string) error {
	root := p.fetcher.tree.root
	err := root.Rename(p.name, to)
	if err == nil {
		return nil
	}
	link := p.fetcher.tree.linkOut(to)
	switch {
	case link != "":
		return &refusedError{fmt.Errorf("%s is a symbolic link that leads out of the copy: put a folder in its place, or mount one there", filepath.Join(p.fetcher.dir, link))}
	case errors.Is(err, fs.ErrNotExist) && path.Dir(to) != ".":
		err = root.MkdirAll(path.Dir(to), 0o755)
	case isFolder(root, to):
		if root.Remove(to) != nil {
			return &refusedError{fmt.Errorf("a folder with files is in its place: move %s away", filepath.Join(p.fetcher.dir, to))}
		}
		err = nil
	}
	if err != nil {
		return err
	}
	return root.Rename(p.name, to)
}

// close ends a partial, and removes it unless a later try can continue it.
func (p *partial) close() {
	_ = p.f.Close() // it may be closed already
	if p.keep {
		p.fetcher.space.set(p.name, p.size)
		return
	}
	if !p.moved { // otherwise it counts until it is recorded
		_ = p.fetcher.tree.root.Remove(p.name)
		p.fetcher.space.set(p.name, 0)
	}
	if p.noted {
		_ = p.fetcher.tree.root.Remove(p.name + notes)
	}
}

// cleanPartials counts the partials that earlier runs left, and removes those that no run
// will continue.
func (ft *fetcher) cleanPartials() error {
	root := ft.tree.root
	entries, err := fs.ReadDir(root.FS(), partsDir)
	for _, e := range entries {
		name := partsDir + "/" + e.Name()
		isNotes, isPackage := strings.HasSuffix(name, notes), strings.HasSuffix(name, whole)
		info, gone := e.Info()
		_, alone := root.Lstat(strings.TrimSuffix(name, notes) + notes)
		switch {
		case gone != nil || alone != nil && !isPackage || time.Since(info.ModTime()) >= partsKept:
			err = errors.Join(err, root.RemoveAll(name))
		case !isNotes && !isPackage:
			ft.space.set(name, info.Size())
		}
	}
	return err
}
