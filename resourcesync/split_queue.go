package resourcesync

import "io"

// queue is a queue of bytes, in pieces that are used again. Unlike a growing slice it
// needs at most one piece more than its content, and never copies it.
type queue struct {
	pieces [][]byte
	read   int // how much of the first piece was written
	size   int64
	spare  [][]byte
}

const pieceSize = 64 << 10

func (q *queue) append(b []byte) {
	q.size += int64(len(b))
	for len(b) > 0 {
		last := len(q.pieces) - 1
		if last < 0 || len(q.pieces[last]) == pieceSize {
			q.pieces = append(q.pieces, q.piece())
			last++
		}
		p := q.pieces[last]
		n := min(len(b), pieceSize-len(p))
		q.pieces[last] = append(p, b[:n]...)
		b = b[n:]
	}
}

func (q *queue) piece() []byte {
	n := len(q.spare)
	if n == 0 {
		return make([]byte, 0, pieceSize)
	}
	p := q.spare[n-1]
	q.spare = q.spare[:n-1]
	return p[:0]
}

// moveTo removes the first n bytes, which must be there, and writes them to w.
func (q *queue) moveTo(w io.Writer, n int64) error {
	q.size -= n
	done := 0 // how many whole pieces were written
	defer func() {
		q.spare = append(q.spare, q.pieces[:done]...)
		q.pieces = append(q.pieces[:0], q.pieces[done:]...)
	}()
	for n > 0 {
		p := q.pieces[done]
		part := p[q.read:min(int64(len(p)), int64(q.read)+n)]
		if _, err := w.Write(part); err != nil {
			return err
		}
		n -= int64(len(part))
		if q.read += len(part); q.read == len(p) {
			q.read = 0
			done++
		}
	}
	return nil
}
