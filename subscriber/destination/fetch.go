package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/egress"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// want is a resource as the Source describes it.
type want struct {
	url     string
	set     string
	length  int64 // -1: not said
	digests resourcesync.Digests
	lastMod time.Time
	mirrors []mirror

	change         string
	changedAt      time.Time
	notificationID string
	tries          int // of earlier runs
}

// mirror is a link to the same bytes (duplicate), or to others that will do
// (alternate).
type mirror struct {
	URL       string `json:"url"`
	Alternate bool   `json:"alternate,omitempty"`
	Pri       int    `json:"pri,omitempty"`
	Length    int64  `json:"length"`
	Hash      string `json:"hash,omitempty"`
}

// wanted is what an entry says.
func wanted(set string, e *resourcesync.Entry) want {
	w := want{
		url: e.Loc, set: set, length: -1, digests: resourcesync.ParseHashes(e.Hash), lastMod: e.LastMod,
		change: e.Change, changedAt: e.Datetime,
	}
	if e.HasLength && e.Length >= 0 {
		w.length = e.Length
	}
	for _, l := range e.Links {
		duplicate := strings.EqualFold(l.Rel, "duplicate")
		if !duplicate && !strings.EqualFold(l.Rel, "alternate") {
			continue
		}
		m := mirror{URL: l.Href, Alternate: !duplicate, Pri: l.Pri, Length: -1, Hash: l.Hash}
		if m.Pri == 0 {
			m.Pri = 999_999
		}
		if l.HasLength {
			m.Length = l.Length
		}
		w.mirrors = append(w.mirrors, m)
	}
	slices.SortStableFunc(w.mirrors, func(a, b mirror) int {
		if a.Alternate != b.Alternate {
			if a.Alternate {
				return 1
			}
			return -1
		}
		return a.Pri - b.Pri
	})
	return w
}

// mismatchError says that bytes came which are not those that the Source describes.
type mismatchError struct{ what string }

func (e *mismatchError) Error() string { return e.what }

// refusedError says that a resource will not be had however often it is asked for.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// fetch brings a resource into the copy: from its address, or else from one that
// the Source names instead. It returns the record of it.
func (c *Copy) fetch(ctx context.Context, w want) (file, error) {
	p, err := c.place(w.url)
	if err != nil {
		return file{}, &refusedError{err}
	}
	if f, ok := c.adopt(w, p); ok {
		return f, nil
	}
	f, err := c.fetchFrom(ctx, w, w.url, p)
	if err == nil || ctx.Err() != nil {
		return f, err
	}
	for _, m := range w.mirrors {
		instead := w
		if m.Alternate {
			instead.length, instead.digests = m.Length, resourcesync.ParseHashes(m.Hash)
		}
		address, bad := resolve(w.url, m.URL)
		if bad != nil {
			continue
		}
		if f, other := c.fetchFrom(ctx, instead, address, p); other == nil {
			f.Instead = address
			c.log.Warn("a resource came from an address that is named instead of it", "event", "instead", "url", w.url, "instead", address, "error", err)
			return f, nil
		}
	}
	return file{}, err
}

// adopt takes a file that is there already: one that was fetched and not recorded
// before a crash, or that was there before the copy was.
func (c *Copy) adopt(w want, p string) (file, bool) {
	if len(w.digests.Algorithms()) == 0 {
		return file{}, false
	}
	info, err := c.root.Lstat(p)
	if err != nil || !info.Mode().IsRegular() || w.length >= 0 && info.Size() != w.length {
		return file{}, false
	}
	got, n, err := c.hashFile(p, w.digests.Algorithms()...)
	if err != nil || got.Compare(w.digests) != resourcesync.Equal {
		return file{}, false
	}
	c.setTime(p, w.lastMod)
	return file{Path: p, Set: w.set, Length: n, Hash: got.String(), Said: true, LastMod: w.lastMod}, true
}

// fetchFrom tries an address up to fetchTries times.
func (c *Copy) fetchFrom(ctx context.Context, w want, address, p string) (file, error) {
	wait := tryFirst
	for try := 1; ; try++ {
		f, err := c.fetchOnce(ctx, w, address, p)
		if err == nil || ctx.Err() != nil || try == fetchTries || !passing(err) {
			return f, err
		}
		if !sleep(ctx, wait) {
			return f, ctx.Err()
		}
		wait *= 4
	}
}

// passing reports whether an error may be another one next time.
func passing(err error) bool {
	var status *subscriber.StatusError
	var host *HostError
	var refused *refusedError
	switch {
	case errors.As(err, &host), errors.As(err, &refused), egress.Classify(err) == egress.FailureRefused, errors.Is(err, fs.ErrPermission):
		return false
	case errors.As(err, &status):
		return status.Status >= 500 || status.Status == http.StatusTooManyRequests || status.Status == http.StatusRequestTimeout
	}
	return true
}

// fetchOnce asks for a resource, and renames what came once it is verified.
func (c *Copy) fetchOnce(ctx context.Context, w want, address, p string) (file, error) {
	part, err := c.openPart(w, address)
	if err != nil {
		return file{}, &refusedError{err}
	}
	defer part.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	header := part.header()
	have, conditional := c.unlessChanged(w, p, header)
	resp, err := c.ask(ctx, address, header)
	if err != nil {
		return file{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNotModified && conditional {
		have.LastMod = w.lastMod
		return have, nil
	}
	if err := part.begin(resp, c.limit(w)); err != nil {
		return file{}, err
	}
	body := &watched{r: resp.Body, timer: time.AfterFunc(stallTimeout, func() { cancel(errStalled) })}
	defer body.timer.Stop()
	if err := part.take(body, c.limit(w)); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		return file{}, err
	}
	got := part.hash.Digests()
	if err := part.verify(w, got); err != nil {
		part.discard()
		return file{}, err
	}
	if err := c.moveIn(part, p, w.lastMod); err != nil {
		return file{}, err
	}
	return file{
		Path: p, Set: w.set, Length: part.hash.Length(), Hash: got.String(), Said: got.Compare(w.digests) == resourcesync.Equal,
		LastMod: w.lastMod, ETag: resp.Header.Get("ETag"), Modified: resp.Header.Get("Last-Modified"),
	}, nil
}

// unlessChanged asks for a resource only if it is another than the copy has, where
// the Source gives no hash that would tell.
func (c *Copy) unlessChanged(w want, p string, header http.Header) (file, bool) {
	f, ok, err := c.state.file(w.url)
	if err != nil || !ok || f.Instead != "" || f.Path != p || len(w.digests.Algorithms()) > 0 || header.Get("Range") != "" {
		return f, false
	}
	if info, err := c.root.Lstat(p); err != nil || info.Size() != f.Length || w.length >= 0 && w.length != f.Length {
		return f, false
	}
	if f.ETag != "" {
		header.Set("If-None-Match", f.ETag)
	}
	if f.Modified != "" {
		header.Set("If-Modified-Since", f.Modified)
	}
	return f, f.ETag != "" || f.Modified != ""
}

var errStalled = fmt.Errorf("nothing came for %v", stallTimeout)

// watched puts the end off as long as something comes.
type watched struct {
	r     io.Reader
	timer *time.Timer
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if n > 0 {
		b.timer.Reset(stallTimeout)
	}
	return n, err
}

// limit is how many bytes of a resource are read at most.
func (c *Copy) limit(w want) int64 {
	if w.length >= 0 {
		return w.length
	}
	return c.o.MaxFile
}

// ask sends a GET, and follows redirects to hosts that may be called. An answer of
// 429 or 503 holds up everything that is wanted of its host.
func (c *Copy) ask(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	for range maxRedirects + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, &refusedError{err}
		}
		req.Header = header.Clone()
		if err := c.hosts.wait(ctx, egress.HostPort(req.URL)); err != nil {
			return nil, err
		}
		// The header has its own limit; the body is watched by whoever reads it.
		timed, cancel := context.WithCancelCause(ctx)
		timer := time.AfterFunc(headerTime, func() { cancel(errStalled) })
		resp, err := c.web.Do(req.WithContext(timed))
		timer.Stop()
		if err != nil {
			cancel(nil)
			return nil, fmt.Errorf("%s: %w", address, egress.WithoutURL(err))
		}
		switch resp.StatusCode {
		case http.StatusOK, http.StatusPartialContent, http.StatusNotModified:
			resp.Body = closing{resp.Body, func() { cancel(nil) }}
			return resp, nil
		}
		next, err := c.judge(resp, address)
		_ = resp.Body.Close()
		cancel(nil)
		if err != nil {
			return nil, err
		}
		address = next
	}
	return nil, &refusedError{fmt.Errorf("%s: more than %d redirects", address, maxRedirects)}
}

type closing struct {
	io.ReadCloser
	then func()
}

func (c closing) Close() error {
	err := c.ReadCloser.Close()
	c.then()
	return err
}

// judge says where an answer other than 200 or 206 leads, or what is wrong.
func (c *Copy) judge(resp *http.Response, address string) (next string, err error) {
	status := &subscriber.StatusError{URL: address, Status: resp.StatusCode, RetryAfter: retryAfter(resp)}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		next, err := resolve(address, resp.Header.Get("Location"))
		if err != nil {
			return "", &refusedError{fmt.Errorf("%s redirects to %q: %w", address, resp.Header.Get("Location"), err)}
		}
		return next, nil
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		c.hosts.hold(egress.HostPort(resp.Request.URL), max(status.RetryAfter, time.Second))
	}
	return "", status
}

func resolve(base, ref string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u, err := b.Parse(ref)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("that is no http or https URL")
	case b.Scheme == "https" && u.Scheme == "http":
		return "", errors.New("that leads from https to http")
	}
	u.Fragment = ""
	return u.String(), nil
}

func retryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		return time.Duration(min(n, 24*3600)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// hashFile reads a file of the copy.
func (c *Copy) hashFile(p string, of ...resourcesync.Algorithm) (resourcesync.Digests, int64, error) {
	f, err := c.root.Open(p)
	if err != nil {
		return resourcesync.Digests{}, 0, err
	}
	defer func() { _ = f.Close() }()
	h := resourcesync.NewHasher(of...)
	if _, err := io.Copy(h, f); err != nil {
		return resourcesync.Digests{}, 0, err
	}
	return h.Digests(), h.Length(), nil
}

// setTime gives a file the time of modification that the Source tells.
func (c *Copy) setTime(p string, t time.Time) {
	if t.IsZero() {
		return
	}
	if err := c.root.Chtimes(p, time.Time{}, t); err != nil {
		c.log.Debug("the time of a file could not be set", "event", "chtimes_failed", "path", p, "error", err)
	}
}

// moveIn renames a verified part to its place.
func (c *Copy) moveIn(part *part, p string, lastMod time.Time) error {
	if err := part.finish(); err != nil {
		return err
	}
	if dir := path.Dir(p); dir != "." {
		if err := c.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	c.setTime(part.name, lastMod)
	if err := c.root.Rename(part.name, p); err != nil {
		return err
	}
	return nil
}
