package boltfile

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// A write-ahead log lies beside its file. A block says which file it belongs to. Then records follow, each of one
// transaction, as many as are good and have consecutive numbers:
//
//	block   magic (8), id (8), size of a page (4), checksum (4)
//	record  checksum (4), count of pages (4), transaction (8), and for each page its place (8), its length (4), and how
//	        much of it follows (4); then the pages, without most zeros at their ends, the meta page last; and zeros, until
//	        the block is full
//
// Numbers are big-endian. A record that is not good was being written when the process or the machine stopped, and
// no caller was told that its transaction is durable. When the log has Options.MaxLog bytes, the file is synced, the first
// block of the first record is overwritten, and the next record goes to the beginning.
//
// While a file has a log, the id of that log stands behind its meta pages (markAt). So neither a log beside another file, nor a
// file without its log, counts as whole.
const (
	walSuffix  = "-wal"
	walMagic   = "rshublog"
	walBlock   = 4096
	walStart   = walBlock // of the first record
	recordHead = 16
	pageHead   = 16
	recordMax  = 512 << 10 // of pages; what is larger does not go to the log
	recordKept = 128 << 10 // of memory, after a commit
	markAt     = 128       // in a meta page, and the sector that bbolt writes as a whole
	markSize   = 8
)

// record is what one transaction wrote.
type record struct {
	txid   uint64
	pages  []page
	data   []byte // the pages
	large  bool   // there were too many to keep
	meta   []byte
	metaAt int64
	packed []byte // what pack returns
}

// page is where pages that follow each other belong in the file.
type page struct{ at, size int64 }

func (r *record) begin(txid uint64) {
	if max(cap(r.data), cap(r.packed)) > recordKept {
		r.data, r.packed = nil, nil
	}
	*r = record{txid: txid, pages: r.pages[:0], data: r.data[:0], meta: r.meta[:0], packed: r.packed}
}

// add copies what is to be written. False: it is too much.
func (r *record) add(p []byte, at int64) bool {
	if r.large = r.large || len(r.data)+len(p) > recordMax; r.large {
		return false
	}
	r.pages, r.data = append(r.pages, page{at, int64(len(p))}), append(r.data, p...)
	return true
}

// pack returns what the log gets. The bytes are valid until the next call.
func (r *record) pack(id []byte) []byte {
	pages, data := append(r.pages, page{r.metaAt, int64(len(r.meta))}), r.data
	b := append(r.packed[:0], make([]byte, recordHead+pageHead*len(pages))...)
	binary.BigEndian.PutUint32(b[4:], uint32(len(pages))) //nolint:gosec // recordMax bounds it, and what else is below
	binary.BigEndian.PutUint64(b[8:], r.txid)
	for n, p := range pages {
		one := r.meta
		if n < len(r.pages) {
			one, data = data[:p.size], data[p.size:]
		}
		one = trimZeros(one)
		head := b[recordHead+pageHead*n:]
		binary.BigEndian.PutUint64(head, uint64(p.at))          //nolint:gosec // no place is negative
		binary.BigEndian.PutUint32(head[8:], uint32(p.size))    //nolint:gosec // nor is a length
		binary.BigEndian.PutUint32(head[12:], uint32(len(one))) //nolint:gosec // nor is this one
		b = append(b, one...)
	}
	r.packed = append(b, make([]byte, blocks(len(b))-len(b))...)
	binary.BigEndian.PutUint32(r.packed, recordSum(id, r.packed))
	return r.packed
}

// recordSum is the checksum of a record.
func recordSum(id, record []byte) uint32 {
	return crc32.Update(crc32.Checksum(id, castagnoli), castagnoli, record[4:])
}

// blocks is the length of as many blocks as have size bytes.
func blocks(size int) int { return (size + walBlock - 1) / walBlock * walBlock }

// trimZeros returns b without most of the zeros at its end.
func trimZeros(b []byte) []byte {
	for len(b) >= 8 && binary.NativeEndian.Uint64(b[len(b)-8:]) == 0 {
		b = b[:len(b)-8]
	}
	return b
}

// writeTo writes the pages to the file, those that follow each other at once.
func (r *record) writeTo(f io.WriterAt) error {
	data := r.data
	for n := 0; n < len(r.pages); {
		at, size := r.pages[n].at, int64(0)
		for ; n < len(r.pages) && r.pages[n].at == at+size; n++ {
			size += r.pages[n].size
		}
		if _, err := f.WriteAt(data[:size], at); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

// wal is an open log.
type wal struct {
	f        *file
	id       []byte
	pageSize int
	at       int64 // of the next record
	empty    bool  // there is no record
}

// createWAL makes an empty log for the file of a DB.
func createWAL(d *DB, pageSize int) (*wal, error) {
	w := &wal{id: make([]byte, markSize), pageSize: pageSize, at: walStart, empty: true}
	_, _ = rand.Read(w.id) // never fails
	path := d.path + walSuffix
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the caller names the file
	if err != nil {
		return nil, err
	}
	w.f = &file{f, path, d}
	// The second block is where clear writes zeros.
	if _, err = w.f.WriteAt(append(w.block(), make([]byte, walBlock)...), 0); err == nil {
		err = w.f.sync()
	}
	if dir := filepath.Dir(path); err == nil {
		err = d.sync(dir, func() error { return atomicfile.SyncDir(dir) })
	}
	if err != nil {
		return nil, errors.Join(err, w.close(), os.Remove(path))
	}
	return w, nil
}

// block is the first one of the log.
func (w *wal) block() []byte {
	b := append(append(make([]byte, 0, walBlock), walMagic...), w.id...)
	b = binary.BigEndian.AppendUint32(b, uint32(w.pageSize)) //nolint:gosec // bbolt bounds it
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))[:walBlock]
}

// openWAL opens the log of a DB for a replay.
func openWAL(d *DB) (*wal, error) {
	path := d.path + walSuffix
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the caller names the file
	if err != nil {
		return nil, err
	}
	w := &wal{f: &file{f, path, d}, at: walStart}
	b := make([]byte, walBlock)
	if _, err = f.ReadAt(b, 0); err == nil || errors.Is(err, io.EOF) {
		w.id, w.pageSize = b[len(walMagic):][:markSize], int(binary.BigEndian.Uint32(b[len(walMagic)+markSize:]))
		if err = nil; !bytes.Equal(b, w.block()) {
			err = fmt.Errorf("the log beside it, %s, does not begin as one", path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *wal) close() error {
	if w == nil {
		return nil
	}
	return w.f.osFile.Close()
}

// mark writes the id of the log into a meta page.
func (w *wal) mark(meta []byte) { copy(meta[markAt:], w.id) }

// markFile writes the id of the log behind both meta pages.
func (w *wal) markFile(f io.WriterAt) error { return setMarks(f, w.pageSize, w.id) }

func setMarks(f io.WriterAt, pageSize int, id []byte) error {
	_, err := f.WriteAt(id, markAt)
	if err == nil {
		_, err = f.WriteAt(id, int64(pageSize)+markAt)
	}
	return err
}

// write writes a packed record to the end of the log.
func (w *wal) write(record []byte) error {
	w.empty = false
	_, err := w.f.WriteAt(record, w.at)
	return err
}

// clear empties the log. It needs no room on the disk, and gives back what the records had.
func (w *wal) clear() error {
	if w.empty {
		return nil
	}
	if err := w.f.osFile.Truncate(walStart + walBlock); err != nil {
		return err
	}
	return w.zero(walStart + walBlock)
}

// wipe leaves nothing in an empty log of what it had.
func (w *wal) wipe() error {
	info, err := w.f.osFile.Stat()
	if err != nil {
		return err
	}
	return w.zero(info.Size())
}

func (w *wal) zero(end int64) error {
	for at := int64(walStart); at < end; at += walBlock {
		if _, err := w.f.WriteAt(make([]byte, walBlock), at); err != nil {
			return err
		}
	}
	if err := w.f.sync(); err != nil {
		return err
	}
	w.at, w.empty = walStart, true
	return nil
}

// next reads the next record; nil: there is none.
func (w *wal) next() (*record, error) {
	var b []byte
	read := func(size int) (err error) { // until b has size bytes
		n := len(b)
		b = append(b, make([]byte, size-n)...)
		_, err = w.f.ReadAt(b[n:], w.at+int64(n))
		return err
	}
	var r record
	err := read(recordHead)
	if err == nil {
		count := binary.BigEndian.Uint32(b[4:])
		if count == 0 || count > recordMax/minPageSize+1 {
			return nil, nil
		}
		err = read(recordHead + pageHead*int(count))
	}
	size, kept, parts := 0, 0, []int{}
	for heads := b[min(recordHead, len(b)):]; len(heads) > 0 && err == nil; heads = heads[pageHead:] {
		one := page{int64(binary.BigEndian.Uint64(heads)), int64(binary.BigEndian.Uint32(heads[8:]))} //nolint:gosec // checked below
		part := int64(binary.BigEndian.Uint32(heads[12:]))
		if one.at < 0 || one.size == 0 || one.size > recordMax || part > one.size || size > recordMax {
			return nil, nil
		}
		r.pages, parts = append(r.pages, one), append(parts, int(part))
		size, kept = size+int(one.size), kept+int(part)
	}
	data := len(b)
	if err == nil {
		err = read(blocks(data + kept))
	}
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if recordSum(w.id, b) != binary.BigEndian.Uint32(b) {
		return nil, nil
	}
	r.txid, r.data = binary.BigEndian.Uint64(b[8:]), make([]byte, 0, size)
	for n, part := range parts {
		r.data = append(r.data, b[data:data+part]...)
		r.data = append(r.data, make([]byte, int(r.pages[n].size)-part)...)
		data += part
	}
	if !w.fits(&r) {
		return nil, nil
	}
	w.at += int64(len(b))
	return &r, nil
}

// fits reports whether a record that was read writes whole pages, none of them beyond those that its meta page, the
// last one, knows.
func (w *wal) fits(r *record) bool {
	size := int64(w.pageSize)
	m, err := readMeta(bytes.NewReader(r.data), int64(len(r.data))-r.pages[len(r.pages)-1].size)
	if err != nil || m.pageSize != w.pageSize {
		return false
	}
	return !slices.ContainsFunc(r.pages, func(p page) bool {
		return p.at%size != 0 || p.size%size != 0 || uint64((p.at+p.size)/size) > m.high //nolint:gosec // next has checked them
	})
}

// records yields the records from the first one on.
func (w *wal) records() iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		w.at = walStart
		var last uint64
		for {
			r, err := w.next()
			if r == nil && err == nil || r != nil && last > 0 && r.txid != last+1 {
				return
			}
			if !yield(r, err) || err != nil {
				return
			}
			last = r.txid
		}
	}
}

// writeTo writes what the log has to the file, whose meta pages have at most the transaction newest.
func (w *wal) writeTo(f *file, newest uint64) error {
	first, last := uint64(0), uint64(0)
	var from, to int64 // the last record
	for r, err := range w.records() {
		if err != nil {
			return err
		}
		last = r.txid
		if from, to = to, w.at; first == 0 {
			first, from = last, walStart
		}
	}
	switch {
	case first > newest+1:
		return fmt.Errorf("it has the transactions until %d, and its log %s those from %d on", newest, w.f.path, first)
	case first > 0 && last < newest:
		return fmt.Errorf("it has the transactions until %d, and its log %s only those until %d", newest, w.f.path, last)
	}
	if err := w.syncLast(from, to); err != nil {
		return err
	}
	for r, err := range w.records() {
		if err != nil {
			return err
		}
		if err := r.writeTo(f); err != nil {
			return err
		}
	}
	return nil
}

// syncLast makes the last record durable. Its writer may have been killed before it synced it, or its sync failed: then
// no other sync writes it, unless it is written again.
func (w *wal) syncLast(from, to int64) error {
	last := make([]byte, to-from)
	_, err := w.f.ReadAt(last, from)
	if err == nil {
		_, err = w.f.WriteAt(last, from)
	}
	if err == nil {
		err = w.f.sync()
	}
	return err
}

// syncAndUnmark makes a file durable in which all transactions are, such that it needs no log.
func syncAndUnmark(f *file, pageSize int) error {
	if err := f.sync(); err != nil {
		return err
	}
	return unmark(f, pageSize)
}

// unmark makes the meta pages durable, such that the file needs no log. It writes to them in any case: no sync writes
// a page for which another one failed, unless it is written again.
func unmark(f *file, pageSize int) error {
	if err := setMarks(f, pageSize, make([]byte, markSize)); err != nil {
		return err
	}
	return f.sync()
}

// marksOf returns the ids behind the meta pages, and the meta page of the last transaction. There are no ids where the
// file needs no log, or its structure is wrong, as the reader of the structure will say.
func marksOf(f io.ReaderAt) (ids [][]byte, last meta, err error) {
	if last, err = readMetas(f); errors.Is(err, errOdd) {
		return nil, last, nil
	}
	for _, at := range []int64{markAt, int64(last.pageSize) + markAt} {
		id := make([]byte, markSize)
		if err == nil {
			_, err = f.ReadAt(id, at)
		}
		if !bytes.Equal(id, make([]byte, markSize)) {
			ids = append(ids, id)
		}
	}
	return ids, last, err
}

// replay makes a file whole that was not closed, so that it needs no log. It needs the lock of the file.
func (f *file) replay() error {
	ids, last, err := marksOf(f)
	if err != nil || len(ids) == 0 {
		return err
	}
	w, err := openWAL(f.d)
	if w != nil {
		defer func() { _ = w.close() }() // it is synced
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("it was not closed, and %s, the log with its last transactions, is not there", f.path+walSuffix)
	case err != nil:
		return err
	case !slices.ContainsFunc(ids, func(id []byte) bool { return bytes.Equal(id, w.id) }):
		return fmt.Errorf("the log beside it, %s, belongs to another file", w.f.path)
	}
	if err := w.writeTo(f, last.txid); err != nil {
		return err
	}
	return syncAndUnmark(f, last.pageSize)
}
