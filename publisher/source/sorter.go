package source

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

const (
	// sortBytes is how many bytes a sorter has in memory. What is more lies in files.
	sortBytes = 16 << 20
	// sortFiles is the most files of a sorter.
	sortFiles = 1000
	// sortRead is how many bytes of each file are read at once.
	sortRead = 32 << 10
)

var errSortFull = fmt.Errorf("the catalogue has more than %d GiB; divide it among several sets", sortFiles*sortBytes>>30)

// sorter sorts values by their keys, however many they are, in bounded memory. It is for one goroutine.
type sorter struct {
	dir   string // of its files, which have no name
	limit int    // sortBytes; only tests have another
	buf   []byte
	items []sortItem
	runs  []sortRun
}

// sortItem is a value in buf: the key, and the value after it.
type sortItem struct{ at, key, value int }

// sortRun is a file of sorted values.
type sortRun struct {
	file *os.File
	size int64
}

// sorted is a value and its key. Both are valid until the next one is read.
type sorted struct {
	key, value []byte
}

func newSorter(dir string) *sorter { return &sorter{dir: dir, limit: sortBytes} }

// add adds a value.
func (s *sorter) add(key string, value []byte) error {
	const item = 24 // bytes of a sortItem
	if len(s.items) > 0 && len(s.buf)+len(key)+len(value)+item*len(s.items) > s.limit {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.items = append(s.items, sortItem{len(s.buf), len(key), len(value)})
	s.buf = append(append(s.buf, key...), value...)
	return nil
}

// spill writes what is in memory to a file.
func (s *sorter) spill() (err error) {
	if len(s.runs) == sortFiles {
		return errSortFull
	}
	f, err := os.CreateTemp(s.dir, "catalogue-")
	if err != nil {
		return fmt.Errorf("sorting the catalogue: %w", err)
	}
	err = os.Remove(f.Name()) // so that nothing is left of it after a kill
	out := bufio.NewWriterSize(f, writeBuffer)
	run := sortRun{file: f}
	for x := range s.inMemory() {
		head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(x.key))), uint64(len(x.value)))
		for _, b := range [][]byte{head, x.key, x.value} {
			n, failed := out.Write(b)
			run.size += int64(n)
			err = errors.Join(err, failed)
		}
		if err != nil {
			break
		}
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("sorting the catalogue: %w", errors.Join(err, f.Close()))
	}
	s.runs, s.buf, s.items = append(s.runs, run), s.buf[:0], s.items[:0]
	return nil
}

// inMemory yields what is in memory, in order.
func (s *sorter) inMemory() iter.Seq[sorted] {
	slices.SortStableFunc(s.items, func(a, b sortItem) int {
		return bytes.Compare(s.buf[a.at:a.at+a.key], s.buf[b.at:b.at+b.key])
	})
	return func(yield func(sorted) bool) {
		for _, i := range s.items {
			if !yield(sorted{s.buf[i.at : i.at+i.key], s.buf[i.at+i.key : i.at+i.key+i.value]}) {
				return
			}
		}
	}
}

// all yields the values in the order of the bytes of their keys: of each key the one that was added last. It may
// be called again, and nothing may be added meanwhile. After an error it ends.
func (s *sorter) all() iter.Seq2[sorted, error] {
	return func(yield func(sorted, error) bool) {
		var h runHeap
		for i, run := range s.runs {
			h = append(h, &runReader{number: i, in: bufio.NewReaderSize(io.NewSectionReader(run.file, 0, run.size), sortRead)})
		}
		memory, stop := iter.Pull(s.inMemory())
		defer stop()
		h = append(h, &runReader{number: len(s.runs), memory: memory})
		for i := len(h) - 1; i >= 0; i-- {
			if more, err := h[i].next(); err != nil {
				yield(sorted{}, err)
				return
			} else if !more {
				h = slices.Delete(h, i, i+1)
			}
		}
		heap.Init(&h)
		var last sorted
		have := false
		for len(h) > 0 {
			r := h[0]
			if have && !bytes.Equal(last.key, r.now.key) && !yield(last, nil) {
				return
			}
			last.key, last.value, have = append(last.key[:0], r.now.key...), append(last.value[:0], r.now.value...), true
			more, err := r.next()
			if err != nil {
				yield(sorted{}, err)
				return
			}
			if more {
				heap.Fix(&h, 0)
			} else {
				heap.Pop(&h)
			}
		}
		if have {
			yield(last, nil)
		}
	}
}

// close releases the files.
func (s *sorter) close() {
	for _, run := range s.runs {
		_ = run.file.Close() // it has no name, and is gone with this
	}
	s.runs, s.buf, s.items = nil, nil, nil
}

// runReader reads one file of a sorter, or what is in memory.
type runReader struct {
	number int // later ones have what was added later
	in     *bufio.Reader
	memory func() (sorted, bool)
	now    sorted
}

// next reads the next value. It returns false at the end.
func (r *runReader) next() (more bool, err error) {
	if r.memory != nil {
		r.now, more = r.memory()
		return more, nil
	}
	key, err := binary.ReadUvarint(r.in)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	value, failed := binary.ReadUvarint(r.in)
	if err = errors.Join(err, failed); err == nil {
		r.now.key, r.now.value = sized(r.now.key, key), sized(r.now.value, value)
		_, err = io.ReadFull(r.in, r.now.key)
	}
	if err == nil {
		_, err = io.ReadFull(r.in, r.now.value)
	}
	if err != nil {
		return false, fmt.Errorf("sorting the catalogue: %w", err)
	}
	return true, nil
}

func sized(b []byte, n uint64) []byte { return slices.Grow(b[:0], int(n))[:n] } //nolint:gosec // an int when it was written

// runHeap orders runs by what they have next.
type runHeap []*runReader

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	c := bytes.Compare(h[i].now.key, h[j].now.key)
	return c < 0 || c == 0 && h[i].number < h[j].number
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runReader)) } //nolint:errcheck // package heap pushes nothing else
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
