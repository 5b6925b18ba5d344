package redisstore

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

const (
	// chunkSize is the size, in bytes, of the chunks of a large body. A body that is at most
	// as large after compression stays with its entry.
	chunkSize = 512 << 10
	// chunksKept is how long the chunks of a body wait for the entry that names them. Then
	// Redis deletes them, because the append failed.
	chunksKept = 5 * time.Minute
	// compressMin is the least size, in bytes, of a body that is compressed.
	compressMin = 128
)

// The first byte of a stored body says how it is stored.
const (
	bodyPlain = 0
	bodyFlate = 1
)

// deflaters and inflaters are shared, because each uses much memory: a deflater more than
// half a megabyte, an inflater 40 KiB.
var (
	deflaters = sync.Pool{New: func() any {
		w, _ := flate.NewWriter(nil, flate.BestSpeed) // it refuses only unknown levels
		return w
	}}
	inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}
)

// inflater is the type of what flate.NewReader returns.
type inflater interface {
	io.Reader
	flate.Resetter
}

// encodeBody returns the form in which a body is stored: compressed if that makes it
// smaller. The result does not share memory with body.
func encodeBody(body []byte) []byte {
	if len(body) >= compressMin {
		b := bytes.NewBuffer(append(make([]byte, 0, len(body)/3+64), bodyFlate))
		w, _ := deflaters.Get().(*flate.Writer)
		defer deflaters.Put(w)
		w.Reset(b)
		_, err := w.Write(body)
		if err = errors.Join(err, w.Close()); err == nil && b.Len() <= len(body) {
			return b.Bytes()
		}
	}
	return append(append(make([]byte, 0, len(body)+1), bodyPlain), body...)
}

// decodeBody returns the body of size bytes from its stored form.
func decodeBody(stored []byte, size int64) ([]byte, error) {
	wrong := fmt.Errorf("%w: the body of an entry", journal.ErrPacked)
	if len(stored) == 0 || size < 0 {
		return nil, wrong
	}
	switch stored[0] {
	case bodyPlain:
		if int64(len(stored)-1) != size {
			return nil, wrong
		}
		return stored[1:], nil
	case bodyFlate:
		// The size comes from an entry that may be damaged. Deflate never expands
		// a byte to more than this.
		if size > int64(len(stored))*1100 {
			return nil, wrong
		}
		r, _ := inflaters.Get().(inflater)
		defer inflaters.Put(r)
		body := make([]byte, size)
		resetErr := r.Reset(bytes.NewReader(stored[1:]), nil)
		_, err := io.ReadFull(r, body)
		more, end := r.Read(make([]byte, 1))
		if resetErr != nil || err != nil || more != 0 || !errors.Is(end, io.EOF) {
			return nil, wrong
		}
		return body, nil
	default:
		return nil, wrong
	}
}

// chunkScript stores a chunk of a body for a limited time. It may run twice.
//
//	KEYS    1 body
//	ARGV    1 number of the chunk, 2 the chunk, 3 how long the body is kept, in milliseconds
//	returns 1
var chunkScript = newScript(grows, `
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
`)

// writeChunks stores a body in chunks, before the entry that names it, and returns their
// number. Writing a chunk twice does no harm.
func (a *appender) writeChunks(ctx context.Context, id uuid.UUID, stored []byte) (n int, err error) {
	key := a.conn.key.body(id)
	for chunk := range slices.Chunk(stored, chunkSize) {
		err := a.conn.run(ctx, chunkScript, []string{key}, n, chunk, chunksKept.Milliseconds()).Err()
		if err != nil {
			return n, fmt.Errorf("storing a chunk of a body: %w", err)
		}
		n++
	}
	return n, nil
}

// readChunks returns a body that is stored in n chunks, or journal.ErrNotFound.
func (r *reader) readChunks(ctx context.Context, e journal.Entry, n int) ([]byte, error) {
	var stored []byte
	for i := range n {
		chunk, err := r.conn.client.HGet(ctx, r.conn.key.body(e.ID), strconv.Itoa(i)).Bytes()
		if errors.Is(err, redis.Nil) {
			return nil, journal.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("reading a chunk of a body: %w", err)
		}
		stored = append(stored, chunk...)
	}
	return decodeBody(stored, e.Size)
}
