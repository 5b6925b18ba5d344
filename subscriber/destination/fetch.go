package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// mismatchError says that the received bytes are not those that the Source describes.
// Short: the response may have been cut off.
type mismatchError struct {
	what  string
	short bool
}

func (e *mismatchError) Error() string { return e.what }

// refusedError says that a resource cannot be fetched, however often it is tried.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// fetcher brings resources into the copy, each verified before it gets its place.
type fetcher struct {
	maxFile int64 // Options.MaxFile
	prefer  *preference
	// patchers are by media type, see Options.Patches; nil for one: it is a unified diff. dir is the
	// folder of the copy, an absolute path.
	patchers map[string]Patcher
	dir      string
	log      *slog.Logger
	web      *hosts
	tree     *tree
	state    *state
	space    *space
	past     atomic.Pointer[time.Time] // of the state that is copied; nil: the current one
}

// fetch brings a resource into the copy: from a package, by a patch, from the preferred address, its own, or else from a
// mirror or alternate that the Source names. It returns the record. The path stays reserved for the
// resource until release.
func (ft *fetcher) fetch(ctx context.Context, w desired) (f file, err error) {
	if w.open == nil {
		if err := askable(w.url); err != nil {
			return file{}, err
		}
	}
	p, empty, err := ft.tree.assign(w.url)
	if err != nil {
		return file{}, &refusedError{err}
	}
	defer func() {
		if err != nil {
			ft.tree.release(p)
		}
	}()
	first := ft.prefer.apply(w)
	if !empty {
		if f, ok := ft.adopt(ctx, first, p); ok {
			return f, nil
		}
	}
	if err := ft.tooLarge(first); err != nil {
		return file{}, err
	}
	if w.open != nil && !first.alternate {
		f, err := ft.put(w, p)
		if err == nil || fatal(err) || full(err) {
			return f, err
		}
		ft.log.Warn("a resource in a package is not what the Source says; it is fetched from its own address", "event", "package_wrong", "url", w.url, "error", err)
	}
	if !first.alternate {
		if f, done := ft.patch(ctx, w, p); done {
			return f, nil
		}
	}
	return ft.fetchAny(ctx, w, p)
}

// fetchAny tries the addresses of a resource one after the other. The error is that of its own
// address, with the hosts of mirrors and alternates that would have to be allowed.
func (ft *fetcher) fetchAny(ctx context.Context, w desired, p string) (file, error) {
	var failed error
	var refused []string
	for i, at := range ft.prefer.places(w) {
		f, err := ft.fetchFrom(ctx, at, at.first, p)
		var host *HostError
		switch {
		case err == nil && at.first == w.url:
			return f, nil
		case err == nil:
			f.Instead = at.first
			if i > 0 {
				ft.log.Warn("a resource came from an alternate or mirror", "event", "instead", "url", w.url, "instead", at.first, "error", failed)
			}
			return f, nil
		case ctx.Err() != nil || fatal(err) || full(err):
			return file{}, err
		case at.first == w.url:
			failed = err
		case errors.As(err, &host):
			if !slices.Contains(refused, host.Host) {
				refused = append(refused, host.Host)
			}
		case i == 0:
			ft.log.Warn("the preferred mirror or alternate of a resource failed; its own address is tried", "event", "preferred_failed", "url", w.url, "preferred", at.first, "error", err)
		}
	}
	if len(refused) > 0 {
		failed = fmt.Errorf("%w; it is also at %s: if you trust that host, allow it with Options.Hosts", failed, strings.Join(refused, ", "))
	}
	return file{}, failed
}

// adopt uses a file that exists already: it was fetched and not recorded before a crash,
// or it was there before the copy.
func (ft *fetcher) adopt(ctx context.Context, w desired, p string) (file, bool) {
	if len(w.digests.Algorithms()) == 0 {
		return file{}, false
	}
	if size, ok := ft.tree.size(p); !ok || w.length >= 0 && size != w.length {
		return file{}, false
	}
	got, n, err := ft.tree.hashFile(ctx, p, w.digests.Algorithms()...)
	if err != nil || got.Compare(w.digests) != resourcesync.Equal {
		return file{}, false
	}
	ft.tree.setTime(p, w.lastMod)
	instead := ""
	if w.alternate {
		instead = w.first
	}
	return file{Path: p, Instead: instead, Set: w.set, Length: n, Hash: got.String(), Said: true, LastMod: w.lastMod}, true
}

// put writes a resource whose content is in a package.
func (ft *fetcher) put(w desired, p string) (file, error) {
	part, err := ft.openPartial(w, w.url, p, false)
	if err != nil {
		return file{}, err
	}
	defer part.close()
	in, err := w.open()
	if err != nil {
		return file{}, err
	}
	defer func() { _ = in.Close() }()
	if err := part.receive(in, w); err != nil {
		return file{}, err
	}
	return part.moveIn(w, p)
}

// fetchFrom tries an address up to fetchTries times, and more often if its host asks to
// come again.
func (ft *fetcher) fetchFrom(ctx context.Context, w desired, address, p string) (file, error) {
	if err := askable(address); err != nil {
		return file{}, err
	}
	if err := ft.tooLarge(w); err != nil {
		return file{}, err
	}
	f, err := patiently(ctx, func() (file, error) { return ft.fetchOnce(ctx, w, address, p, codings(w.encoding)) })
	var mismatch *mismatchError
	if errors.As(err, &mismatch) && len(codings(w.encoding)) > 0 { // a server may code once more what is stored coded
		return patiently(ctx, func() (file, error) { return ft.fetchOnce(ctx, w, address, p, nil) })
	}
	return f, err
}

// askable returns a *refusedError for an address that no request can be sent to.
// Characters that the Source did not percent-encode are encoded by now.
func askable(address string) error {
	err := noWebAddress(address)
	if err == nil {
		return nil
	}
	return &refusedError{fmt.Errorf("no request can be sent to the address that the Source gives (%w); ask its operator to write an http or https URL", err)}
}

// noWebAddress says why an address is not that of a web server; nil: it is.
func noWebAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.Unwrap(err) // without the address, which the caller adds
	case u.Scheme == "":
		return errors.New("it is relative")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s is neither http nor https", u.Scheme)
	case u.Host == "":
		return errors.New("it names no host")
	}
	return nil
}

// patiently tries again while that may help.
func patiently[T any](ctx context.Context, do func() (T, error)) (T, error) {
	wait := tryFirst
	for try := 1; ; try++ {
		v, err := do()
		if err == nil || ctx.Err() != nil || !passing(err) {
			return v, err
		}
		var status *subscriber.StatusError
		asked := errors.As(err, &status) && (status.Status == http.StatusTooManyRequests || status.Status == http.StatusServiceUnavailable)
		if try >= askedTries || !asked && try >= fetchTries {
			return v, err
		}
		if !asked && !clock.Sleep(ctx, wait) { // hosts.Do waits if the host asked
			return v, ctx.Err()
		}
		wait = min(4*wait, tryMax)
	}
}

// passing reports whether an error may pass by itself.
func passing(err error) bool {
	var (
		status   *subscriber.StatusError
		host     *HostError
		away     *awayError
		refused  *refusedError
		mismatch *mismatchError
	)
	switch {
	case errors.As(err, &host), errors.As(err, &away), errors.As(err, &refused), egress.Classify(err) == egress.FailureRefused,
		fatal(err), full(err), errors.Is(err, fs.ErrPermission):
		return false
	case errors.As(err, &mismatch):
		return mismatch.short
	case errors.As(err, &status):
		return status.Status >= 500 || status.Status == http.StatusTooManyRequests || status.Status == http.StatusRequestTimeout ||
			status.Status == http.StatusRequestedRangeNotSatisfiable
	}
	return true
}

// fetchOnce requests a resource, in codings if there are any, verifies it, and renames it to its
// place.
func (ft *fetcher) fetchOnce(ctx context.Context, w desired, address, p string, in []string) (f file, err error) {
	part, err := ft.openPartial(w, address, p, true)
	if err != nil {
		return file{}, err
	}
	defer part.close()
	defer func() {
		if mismatch := (*mismatchError)(nil); errors.As(err, &mismatch) && part.unasked != "" {
			mismatch.what += "; " + part.unasked
		}
	}()
	header := part.header(in)
	have, conditional := ft.unlessChanged(w, address, p, header)
	resp, err := ft.web.ask(ctx, address, header)
	if err != nil {
		var status *subscriber.StatusError
		if errors.As(err, &status) && status.Status == http.StatusRequestedRangeNotSatisfiable {
			part.keep = false
		}
		return file{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNotModified {
		if !conditional {
			return file{}, &refusedError{fmt.Errorf("%s answered 304 to a request without a condition", address)}
		}
		have.LastMod, have.Early = w.lastMod, isToday(w.lastMod)
		return have, nil
	}
	if err := pageInstead(&w, address, resp); err != nil {
		part.keep = false
		return file{}, err
	}
	if err := ft.mayBePast(&w, resp); err != nil && !part.apart {
		part.keep = false
		return file{}, err
	}
	if err := part.begin(resp, address, w); err != nil {
		part.keep = false
		return file{}, err
	}
	if err := part.receive(resp.Body, w); err != nil {
		return file{}, web.EndedEarly(err, part.size-part.have, cmp.Or(part.rest, resp.ContentLength))
	}
	f, err = part.moveIn(w, p)
	f.ETag, f.Modified = web.ValidatorsOf(resp)
	return f, err
}

// pageInstead returns an error if a redirect leads to a web page in place of a resource of another media type, as to a login.
// A hash would show that, so it is only for resources without.
func pageInstead(w *desired, address string, resp *http.Response) error {
	said, _, _ := mime.ParseMediaType(w.mediaType)
	sent, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if len(w.digests.Algorithms()) > 0 || sent != "text/html" || said == "" || said == sent || said == "application/xhtml+xml" || resp.Request.URL.String() == address {
		return nil
	}
	return &refusedError{fmt.Errorf("%s redirects to %s, which is a web page, and the Source says that the resource is %s; if the page is a login, give a token (Options.Tokens)",
		address, resp.Request.URL.Redacted(), said)}
}

// unlessChanged makes the request conditional if the Source gives no hash that would show
// a change. It returns the record of the file that the copy has.
func (ft *fetcher) unlessChanged(w desired, address, p string, header http.Header) (file, bool) {
	f, ok := ft.state.file(w.url)
	if !ok || w.force || cmp.Or(f.Instead, w.url) != address || f.Path != p || len(w.digests.Algorithms()) > 0 || header.Get("Range") != "" {
		return f, false
	}
	if size, ok := ft.tree.size(p); !ok || size != f.Length || w.length >= 0 && w.length != size {
		return f, false
	}
	return f, web.IfChanged(header, f.ETag, f.Modified)
}

// limit returns how many bytes of a resource are read at most. A length that the Source
// states can only lower it.
func (ft *fetcher) limit(w desired) int64 {
	if w.length >= 0 {
		return min(w.length, ft.maxFile)
	}
	return ft.maxFile
}

// tooLarge returns an error if the Source states a length over Options.MaxFile. Then no
// request is sent.
func (ft *fetcher) tooLarge(w desired) error {
	if w.length <= ft.maxFile {
		return nil
	}
	return &refusedError{fmt.Errorf("the Source says that it has %d bytes, and Options.MaxFile allows %d; raise that if the Source is right", w.length, ft.maxFile)}
}
