package redisstore

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

const (
	// chunkSize is the size, in bytes, of the chunks of a large body. A body that is no
	// larger after compression stays with its entry.
	chunkSize = 512 << 10
	// chunksKept is how long the chunks of a body wait for the entry that names them.
	// Redis deletes those of an append that failed after that.
	chunksKept = 5 * time.Minute
	// compressMin is the size in bytes from which on compression pays.
	compressMin = 128
)

// How a body is stored: its first byte.
const (
	bodyPlain = 0
	bodyFlate = 1
)

// deflaters and inflaters are shared, as each holds much memory: more than half a
// megabyte and 40 KiB.
var (
	deflaters = sync.Pool{New: func() any {
		w, err := flate.NewWriter(nil, flate.BestSpeed)
		if err != nil {
			panic(err) // the level is right
		}
		return w
	}}
	inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}
)

// inflater is what flate.NewReader returns.
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

// decodeBody returns the body of size bytes that stored is the form of.
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
		// The size is that of an entry that may be damaged: deflate makes no more
		// of so few bytes.
		if size > int64(len(stored))*1100 {
			return nil, wrong
		}
		r, _ := inflaters.Get().(inflater)
		defer inflaters.Put(r)
		body := make([]byte, size)
		if err := r.Reset(bytes.NewReader(stored[1:]), nil); err != nil {
			return nil, wrong
		}
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, wrong
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			return nil, wrong
		}
		return body, nil
	default:
		return nil, wrong
	}
}

// chunkScript stores a part of a body, for a while. It may run twice.
//
//	KEYS    1 body
//	ARGV    1 number of the part, 2 the part, 3 how long the body is kept, in milliseconds
//	returns 1
var chunkScript = newScript(grows, `
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
`)

// writeChunks stores the form of a body in chunks, before the entry that names it, and
// returns their number. Writing a chunk twice does no harm.
func (a *appender) writeChunks(ctx context.Context, id uuid.UUID, stored []byte) (n int, err error) {
	key := a.conn.key.body(id)
	for ; len(stored) > 0; n++ {
		part := stored[:min(chunkSize, len(stored))]
		stored = stored[len(part):]
		err := a.conn.run(ctx, chunkScript, []string{key}, n, part, chunksKept.Milliseconds()).Err()
		if err != nil {
			return n, fmt.Errorf("storing a part of a body: %w", err)
		}
	}
	return n, nil
}

// readChunks returns a body that is stored in n parts, or journal.ErrNotFound.
func (r *reader) readChunks(ctx context.Context, e journal.Entry, n int) ([]byte, error) {
	var stored []byte
	for i := range n {
		part, err := r.conn.client.HGet(ctx, r.conn.key.body(e.ID), strconv.Itoa(i)).Bytes()
		if errors.Is(err, redis.Nil) {
			return nil, journal.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("reading a part of a body: %w", err)
		}
		stored = append(stored, part...)
	}
	return decodeBody(stored, e.Size)
}
