package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/rshub/rshub/internal/egress"
	"github.com/rshub/rshub/resourcesync"
)

// partsDir is where resources are written until they are whole; it is in the copy
// so that they can be renamed into it.
const partsDir = stateName + "/parts"

// part is a resource on its way. A large one stays when the connection breaks, and
// is gone on with where its server can prove that it is still the same.
type part struct {
	copy *Copy
	name string // in the copy
	f    *os.File
	hash *resourcesync.Hasher
	have int64 // bytes from an earlier try
	from validator
	keep bool
	of   []resourcesync.Algorithm
}

// validator is how an earlier answer is recognised.
type validator struct {
	ETag string `json:"etag"` // a strong one
	URL  string `json:"url"`
}

func (c *Copy) openPart(w want, address string) (*part, error) {
	p := &part{copy: c, name: partsDir + "/" + digest(w.url, 16), of: w.digests.Algorithms()}
	if len(p.of) == 0 {
		p.of = []resourcesync.Algorithm{resourcesync.SHA256}
	}
	f, err := c.root.OpenFile(p.name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	p.f = f
	if raw, err := c.root.ReadFile(p.name + ".json"); err == nil && json.Unmarshal(raw, &p.from) == nil && p.from.URL == address && p.from.ETag != "" {
		if info, err := f.Stat(); err == nil {
			p.have = info.Size()
		}
	}
	return p, nil
}

// header is what to ask with.
func (p *part) header() http.Header {
	h := http.Header{"Accept-Encoding": {"identity"}}
	if p.have > 0 {
		h.Set("Range", "bytes="+strconv.FormatInt(p.have, 10)+"-")
		h.Set("If-Range", p.from.ETag)
	}
	return h
}

// begin readies the part for the body of an answer.
func (p *part) begin(resp *http.Response, limit int64) error {
	p.hash = resourcesync.NewHasher(p.of...)
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return &refusedError{fmt.Errorf("it came with Content-Encoding %s, which nobody asked for", enc)}
	}
	if resp.StatusCode == http.StatusPartialContent {
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(p.have, 10)+"-") || p.have == 0 {
			p.discard()
			return errors.New("a part came that was not asked for")
		}
		if _, err := io.Copy(p.hash, io.NewSectionReader(p.f, 0, p.have)); err != nil {
			return err
		}
		if _, err := p.f.Seek(p.have, io.SeekStart); err != nil {
			return err
		}
		p.keep = true
	} else {
		if err := p.f.Truncate(0); err != nil {
			return err
		}
		p.have = 0
		if err := p.remember(resp); err != nil {
			return err
		}
	}
	if n := resp.ContentLength; n >= 0 && p.have+n > limit {
		return &mismatchError{fmt.Sprintf("it has %d bytes, and the Source says %d at most", p.have+n, limit)}
	}
	return nil
}

// remember notes how to go on with a large part.
func (p *part) remember(resp *http.Response) error {
	tag := resp.Header.Get("ETag")
	if resp.ContentLength < resumeFrom || !strings.HasPrefix(tag, `"`) {
		return ignoreMissing(p.copy.root.Remove(p.name + ".json"))
	}
	raw, err := json.Marshal(validator{ETag: tag, URL: resp.Request.URL.String()})
	if err != nil {
		return err
	}
	p.keep = true
	return p.copy.root.WriteFile(p.name+".json", raw, 0o644)
}

// take reads the body, as far as limit.
func (p *part) take(body io.Reader, limit int64) error {
	n, err := io.Copy(io.MultiWriter(p.f, p.hash), io.LimitReader(body, limit-p.have+1))
	if err != nil {
		return egress.WithoutURL(err)
	}
	if p.have+n > limit {
		p.discard()
		return &mismatchError{fmt.Sprintf("it has more than the %d bytes that it may have", limit)}
	}
	return nil
}

// verify compares what came with what the Source says.
func (p *part) verify(w want, got resourcesync.Digests) error {
	if n := p.hash.Length(); w.length >= 0 && n != w.length {
		return &mismatchError{fmt.Sprintf("it has %d bytes, and the Source says %d", n, w.length)}
	}
	if got.Compare(w.digests) == resourcesync.Different {
		return &mismatchError{fmt.Sprintf("its hash is %s, and the Source says %s", got, w.digests)}
	}
	return nil
}

// discard leaves nothing to go on with.
func (p *part) discard() { p.keep = false }

// finish closes a part that is whole.
func (p *part) finish() error {
	p.keep = true // until it is renamed
	err := p.f.Close()
	p.f = nil
	return errors.Join(err, ignoreMissing(p.copy.root.Remove(p.name+".json")))
}

// close ends a part, and removes it unless it can be gone on with.
func (p *part) close() {
	if p.f != nil {
		_ = p.f.Close()
		if !p.keep {
			_ = p.copy.root.Remove(p.name)
			_ = p.copy.root.Remove(p.name + ".json")
		}
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
