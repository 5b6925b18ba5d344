package hub

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rshub/rshub/websub"
)

const (
	// firstStep is the room a body gets before any of it has come. It is
	// doubled as it fills, so that requests which promise much and send nothing
	// hold little.
	firstStep = 64 << 10
	// readChunk is the most that is read at once, and hashed after.
	readChunk = 256 << 10
	// slowest is the pace below which a body is given up, in bytes a second, and
	// bodyTimeout what it may take besides.
	slowest     = 32 << 10
	bodyTimeout = 15 * time.Second
	// maxForm is the longest form in bytes: a ping of many topics.
	maxForm = websub.MaxFormBytes
)

// body is the body of a request, and a share of the memory that all bodies have
// together.
type body struct {
	bytes  []byte
	sum    [sha256.Size]byte
	shared *semaphore.Weighted
	held   int64 // of the shared memory, in bytes
}

// release gives the memory back. The bytes are not to be used after it.
func (b *body) release() {
	if b.held > 0 {
		b.shared.Release(b.held)
	}
	b.bytes, b.held = nil, 0
}

// incoming is what is to come of r.
func (h *Handler) incoming(w http.ResponseWriter, r *http.Request) *timedReader {
	return &timedReader{src: r.Body, ctl: http.NewResponseController(w), start: time.Now(), grace: bodyTimeout}
}

// takeIn reads a body of at most limit bytes, which is said to be of length bytes
// (-1: nobody said so), and hashes it on the way. Its memory is of shared, and the
// caller releases it. The error is a *refusal, where in has no others: the body is
// over the limit or its length, came too slowly, broke off, or there is no memory
// for it.
func takeIn(shared *semaphore.Weighted, in io.Reader, length, limit int64) (*body, error) {
	if length > limit {
		return nil, overLimit(limit)
	}
	longest := limit
	if length >= 0 {
		longest = length
	}
	b := &body{shared: shared}
	if err := b.fill(in, sha256.New(), longest); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// fill reads in to its end, which must come within longest bytes. There is room
// for one byte more, to notice when it does not.
func (b *body) fill(in io.Reader, digest hash.Hash, longest int64) error {
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(min(max(firstStep, 2*int64(cap(b.bytes))), longest+1)); err != nil {
				return err
			}
		}
		old := len(b.bytes)
		n, err := in.Read(b.bytes[old:min(cap(b.bytes), old+readChunk)])
		b.bytes = b.bytes[:old+n]
		digest.Write(b.bytes[old:])
		if int64(len(b.bytes)) > longest {
			return overLimit(longest)
		}
		if errors.Is(err, io.EOF) {
			digest.Sum(b.sum[:0])
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// grow makes room for size bytes in all, if there is so much memory.
func (b *body) grow(size int64) error {
	if !b.shared.TryAcquire(size) {
		return refuse(busy, "This hub is taking in as many bytes as it can hold at the moment. Try again in a second.").retryAfter(time.Second)
	}
	old := b.held
	b.bytes = append(make([]byte, 0, size), b.bytes...)
	b.held = size
	if old > 0 {
		b.shared.Release(old)
	}
	return nil
}

func overLimit(limit int64) error {
	return refuse(tooLarge, "The body is longer than %d bytes, the most that can be taken; send less at once.", limit)
}

// timedReader reads from a connection, and gives up when that takes longer than
// grace and what the bytes so far need at slowest. Its errors other than io.EOF
// are *refusals.
type timedReader struct {
	src   io.Reader
	ctl   *http.ResponseController
	start time.Time
	grace time.Duration
	total int64
}

func (t *timedReader) Read(p []byte) (int, error) {
	allowed := t.grace + time.Duration(t.total)*time.Second/slowest
	_ = t.ctl.SetReadDeadline(t.start.Add(allowed)) // where there is no connection there is no deadline
	n, err := t.src.Read(p)
	t.total += int64(n)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, refuse(slowBody, "The body came too slowly: %d bytes in %s.", t.total, allowed.Round(time.Second))
	}
	r := refuse(incompleteBody, "The body broke off after %d bytes.", t.total)
	r.cause = err
	return n, r
}
