package hub

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// firstStep is the memory for a body before any of it has arrived. It doubles as it
	// fills, so that a request that promises much and sends nothing gets little.
	firstStep = 64 << 10
	// readChunk is the most that is read at once, and hashed after.
	readChunk = 256 << 10
	// slowest is the slowest pace at which a body may arrive, in bytes a second, after
	// bodyTimeout.
	slowest     = 32 << 10
	bodyTimeout = 15 * time.Second
)

// hashedBodies limits the hashing for wrong signatures: so many bodies of MaxBody bytes a
// minute for one requester.
const hashedBodies = 8

// read is the second stage: the body, hashed as it comes, and the signature over it.
func (h *Handler) read(_ context.Context, p *publication) error {
	var err error
	in := h.incoming(p.w, p.r)
	p.body, err = readBody(h.memory, in, p.r.ContentLength, h.o.MaxBody)
	now := h.o.Now()
	h.bytesByPublisher.spend(now, p.publisherKey, in.total)
	h.bytesByTopicHost.spend(now, p.hostKey, in.total)
	if err != nil {
		return err
	}
	p.bodyLength = int64(len(p.body.bytes))
	if err := h.checkSignature(now, p); err != nil {
		return err
	}
	// Check again: the token may have been revoked while the body was read.
	_, err = h.credential(p.r.Header, p)
	return err
}

// checkSignature finds the publisher whose secret the body is signed with, if there is a
// signature to check.
func (h *Handler) checkSignature(now time.Time, p *publication) error {
	if p.signature == "" {
		return nil
	}
	var reserved []reservation
	signer, err := h.o.Publishers.BySignature(p.signature, p.body.bytes, p.topic, func() error {
		const what = "from your address had to be hashed for signatures that fit none of our secrets"
		if err := h.hashedByRequester.check(now, p.network, what, int64(len(p.body.bytes))); err != nil {
			return err
		}
		reserved = append(reserved, h.hashedByRequester.reserve(now, p.network, what, len(p.body.bytes)))
		return nil
	})
	if err == nil { // hashing for a publisher of this hub does not count
		for _, r := range reserved {
			r.cancel(now)
		}
	}
	p.publisher = signer.Name // also if it may not publish to this topic, for the log
	return err
}

// body is the body of a request, with its part of the memory that all bodies share.
type body struct {
	bytes  []byte
	sum    [sha256.Size]byte
	shared *semaphore.Weighted
	held   int64 // of the shared memory, in bytes
}

// release gives back the memory. The bytes may not be used any more.
func (b *body) release() {
	if b.held > 0 {
		b.shared.Release(b.held)
	}
	b.bytes, b.held = nil, 0
}

// incoming reads the body of r.
func (h *Handler) incoming(w http.ResponseWriter, r *http.Request) *timedReader {
	return &timedReader{src: r.Body, ctl: http.NewResponseController(w), start: time.Now(), grace: bodyTimeout}
}

// readBody reads a body of at most limit bytes, and hashes it as it comes. Length is its
// Content-Length, -1 if there is none. The memory comes from shared; the caller releases
// it. The error is a *refusal or an error of in: the body is longer than the limit or its
// length, is too slow or incomplete, or there is no memory for it.
func readBody(shared *semaphore.Weighted, in io.Reader, length, limit int64) (*body, error) {
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

// fill reads all of in, which must end within longest bytes. There is memory for one byte
// more, to notice a longer one.
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

// grow gets memory for size bytes in total, if there is that much.
func (b *body) grow(size int64) error {
	if !b.shared.TryAcquire(size) {
		return refuse(busy, "This hub is receiving as many bytes as it has memory for. Try again in a second.").retryAfter(time.Second)
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
	return refuse(tooLarge, "The body is longer than %d bytes, the limit. Send less at once.", limit)
}

// timedReader reads from a connection. It fails when reading takes longer than grace plus
// the time that the bytes so far need at slowest. Its errors other than io.EOF are
// *refusals.
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
