package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
)

const (
	fetchTimeout = 2 * time.Minute // of one document
	maxRedirects = 5
	// maxWait is how long a server may ask to be left in peace, by Retry-After.
	maxWait = 30 * time.Second
)

// input is what is to be validated.
type input struct {
	name string
	at   io.ReaderAt
	size int64
	// requested and final are the URL before and after redirects.
	requested, final string
	gzip             bool // by its name or by HTTP
	cut              bool // there is more of it than was read
}

var (
	magicZIP  = []byte("PK\x03\x04")
	emptyZIP  = []byte("PK\x05\x06")
	magicGzip = []byte("\x1f\x8b")
)

func (in input) beginsWith(magic []byte) bool {
	begin := make([]byte, len(magic))
	_, err := in.at.ReadAt(begin, 0)
	return err == nil && bytes.Equal(begin, magic)
}

// isPackage reports whether this is a ZIP file.
func (in input) isPackage() bool { return in.beginsWith(magicZIP) || in.beginsWith(emptyZIP) }

// body is a document as it is read, from its beginning as often as is needed.
type body struct {
	at   io.ReaderAt
	size int64
}

func (b body) reader() io.Reader { return io.NewSectionReader(b.at, 0, b.size) }

// document is what is to be read of a document: one byte more than may be at most,
// so that it is seen to be too long. Where it should be compressed and isn't, as
// when a server undid it, it is taken as it is.
func (in input) document() (body, error) {
	most := resourcesync.DefaultLimits.Bytes + 1
	switch packed := in.beginsWith(magicGzip); {
	case packed && !in.gzip:
		return body{}, errors.New("it is compressed with gzip, and neither its name, by .gz, nor HTTP says so; who reads it will not undo that")
	case !packed:
		return body{in.at, min(in.size, most)}, nil
	}
	z, err := gzip.NewReader(io.NewSectionReader(in.at, 0, in.size))
	if err != nil {
		return body{}, fmt.Errorf("not gzip, though its name or HTTP says so: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, most))
	if err != nil {
		return body{}, fmt.Errorf("not gzip from end to end: %w", err)
	}
	return body{bytes.NewReader(b), int64(len(b))}, nil
}

// inputs gets at what is to be validated.
type inputs struct {
	stdin  io.Reader
	client *egress.Client
	pause  time.Duration        // between two requests to one host
	asked  map[string]time.Time // when a host may be asked again
}

// get opens a file, a URL or standard input. What it returns is to be closed by
// the function.
func (s *inputs) get(ctx context.Context, name string) (input, func(), error) {
	nothing := func() {}
	switch {
	case name == "-":
		in, err := readWhole(name, s.stdin)
		if err != nil {
			err = fmt.Errorf("reading %s: %w", name, err)
		}
		return in, nothing, err
	case isURL(name):
		in, err := s.fetch(ctx, name)
		return in, nothing, err
	}
	f, err := os.Open(name) //nolint:gosec // the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return input{}, nothing, Fail(ExitNotFound, "there is no file %s; name one, an http or https URL, or - for standard input", name)
	}
	if err != nil {
		return input{}, nothing, err
	}
	closing := func() { _ = f.Close() } // only read
	in := input{name: name, at: f}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		in.size = info.Size()
	} else if in, err = readWhole(name, f); err != nil {
		closing()
		return input{}, nothing, fmt.Errorf("reading %s: %w", name, err)
	}
	in.gzip = isGzipName(name)
	return in, closing, nil
}

// readWhole reads what can't be read at any place. What is longer than any document
// is cut off, and seen to be too long.
func readWhole(name string, r io.Reader) (input, error) {
	b, err := io.ReadAll(io.LimitReader(r, resourcesync.DefaultLimits.Bytes+1))
	size := int64(len(b))
	return input{name: name, at: bytes.NewReader(b), size: size, cut: size > resourcesync.DefaultLimits.Bytes}, err
}

func isGzipName(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".gz") }

// fetch gets a URL. The exit code of its error says what kind of failure it is.
func (s *inputs) fetch(ctx context.Context, name string) (input, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	where := name
	for range maxRedirects + 1 {
		resp, err := s.ask(ctx, where)
		if err != nil {
			return input{}, err
		}
		next, err := resp.Location()
		if resp.StatusCode/100 == 3 && err == nil {
			_ = resp.Body.Close() // nothing of it is wanted
			if where = next.String(); !isWeb(next) {
				return input{}, Fail(ExitFailure, "%s redirects to %q, which is no http or https URL", name, where)
			}
			continue
		}
		in, err := s.take(name, resp)
		in.requested, in.final = name, where
		return in, err
	}
	return input{}, Fail(ExitFailure, "%s redirects more than %d times", name, maxRedirects)
}

// ask sends one request, and once more where the server says when to.
func (s *inputs) ask(ctx context.Context, where string) (*http.Response, error) {
	u, err := url.Parse(where)
	if err != nil || !isWeb(u) {
		return nil, Fail(ExitUsage, "%q is no http or https URL", where)
	}
	for again := true; ; again = false {
		if err := s.wait(ctx, egress.HostPort(u)); err != nil {
			return nil, Fail(ExitUnreachable, "%s: %w", where, err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
		if err != nil {
			return nil, Fail(ExitUsage, "%w", egress.WithoutURL(err))
		}
		req.Header.Set("User-Agent", "rshub-validate")
		req.Header.Set("Accept", "application/xml, text/xml, */*;q=0.1")
		resp, err := s.client.Do(req)
		if err != nil {
			return nil, unreachable(where, err)
		}
		after, asks := retryAfter(resp)
		if !asks || !again {
			return resp, nil
		}
		_ = resp.Body.Close() // nothing of it is wanted
		s.asked[egress.HostPort(u)] = time.Now().Add(after)
	}
}

// wait waits until a host may be asked, and notes when it may be asked again.
func (s *inputs) wait(ctx context.Context, host string) error {
	if s.asked == nil {
		s.asked = make(map[string]time.Time)
	}
	if d := time.Until(s.asked[host]); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.asked[host] = time.Now().Add(s.pause)
	return nil
}

// retryAfter reports whether a server asks to be asked later, within bounds.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	after := time.Duration(seconds) * time.Second
	return after, err == nil && after <= maxWait
}

// unreachable tells apart why there is no answer.
func unreachable(where string, err error) error {
	if egress.Classify(err) == egress.FailureRefused {
		return Fail(ExitRefused, "%s is not asked: %w; --dev allows loopback and private addresses", where, err)
	}
	return Fail(ExitUnreachable, "%s can't be reached: %w", where, err)
}

// take reads an answer.
func (s *inputs) take(name string, resp *http.Response) (input, error) {
	defer func() { _ = resp.Body.Close() }() // only read
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return input{}, Fail(ExitNotFound, "%s is not there: its server answers %s", name, resp.Status)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return input{}, Fail(ExitRefused, "%s is not for us: its server answers %s", name, resp.Status)
	case code == http.StatusTooManyRequests, code >= 500:
		return input{}, Fail(ExitUnreachable, "%s can't be had now: its server answers %s", name, resp.Status)
	case code != http.StatusOK:
		return input{}, Fail(ExitFailure, "%s can't be had: its server answers %s", name, resp.Status)
	}
	in, err := readWhole(name, resp.Body)
	if err != nil {
		return in, Fail(ExitUnreachable, "%s broke off: %w", name, err)
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // what can't be read is none
	encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	u, err := url.Parse(name)
	in.gzip = encoding == "gzip" || encoding == "x-gzip" || media == "application/gzip" || media == "application/x-gzip" ||
		err == nil && isGzipName(u.Path)
	return in, nil
}

// isURL tells a URL from the name of a file.
func isURL(name string) bool {
	scheme, _, found := strings.Cut(name, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}
