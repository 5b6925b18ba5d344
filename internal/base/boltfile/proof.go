package boltfile

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"os"

	"go.etcd.io/bbolt"
)

// bbolt writes a transaction N in two steps, and syncs after each: its pages, then the meta page that
// leads to them. This package has one sync for both. A crash before its end may leave the new meta page and not all
// of the pages. So behind the meta page, where bbolt writes nothing, stands the proof of N: the numbers
// of its pages, and a checksum of what is in them. Open takes a transaction back whose proof
// is not right: nobody was told that it is durable. The transaction before it was proved and durable when
// N began, and N wrote to none of its pages.
//
// A transaction of very many pages has two syncs: one for pages and meta page, and one for a proof
// that has no pages to look at. If nothing is written for a second, and when the file is closed, such a proof goes to
// both meta pages: the last transaction is settled. So a page that decays later is damage, and takes nothing back.
const (
	proofAt   = 128 // in the meta page
	proofHead = 20  // checksum of what follows (4), transaction (8), count of pages (4), checksum of their content (4)
	settled   = math.MaxUint32
)

// proof says that a transaction is in the file.
type proof struct {
	txid  uint64
	count uint32 // of pages; settled: there is nothing to look at
	sum   uint32 // of the pages
	ids   []byte // of the pages, four bytes each
}

func (p proof) pack() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 4, proofHead+len(p.ids)), p.txid)
	b = binary.BigEndian.AppendUint32(b, p.count)
	b = append(binary.BigEndian.AppendUint32(b, p.sum), p.ids...)
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// unpackProof reads what stands behind a meta page, and reports whether it is a proof.
func unpackProof(b []byte) (p proof, ok bool) {
	p = proof{txid: binary.BigEndian.Uint64(b[4:]), count: binary.BigEndian.Uint32(b[12:]), sum: binary.BigEndian.Uint32(b[16:])}
	if p.count != settled {
		if int64(p.count) > int64(len(b)-proofHead)/4 {
			return proof{}, false
		}
		p.ids = b[proofHead:][:4*p.count]
	}
	return p, binary.BigEndian.Uint32(b) == crc32.Checksum(b[4:proofHead+len(p.ids)], castagnoli)
}

// holds reports whether the pages are those of the transaction.
func (p proof) holds(f io.ReaderAt, pageSize int) (bool, error) {
	if p.count == settled {
		return true, nil
	}
	sum, page := uint32(0), make([]byte, pageSize)
	for ids := p.ids; len(ids) > 0; ids = ids[4:] {
		_, err := f.ReadAt(page, int64(binary.BigEndian.Uint32(ids))*int64(pageSize))
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		sum = crc32.Update(sum, castagnoli, page)
	}
	return sum == p.sum, nil
}

// slot is one of the two meta pages, with the proof behind it.
type slot struct {
	meta
	at     int64 // in the file
	proof  proof
	proved bool // there is a proof of some transaction
}

// readMetas returns the meta page of the last transaction, and the other one, without their proofs.
func readMetas(f io.ReaderAt) (last, other slot, err error) {
	if last.meta, err = readMeta(f, 0); err != nil {
		return last, other, err
	}
	if last.pageSize < 1<<10 || last.pageSize > maxPageSize {
		return last, other, odd("a page has %d bytes", last.pageSize)
	}
	other.at = int64(last.pageSize)
	if other.meta, err = readMeta(f, other.at); other.txid > last.txid {
		last, other = other, last
	}
	return last, other, err
}

// readSlots is readMetas with the proofs.
func readSlots(f io.ReaderAt) (last, other slot, err error) {
	last, other, err = readMetas(f)
	for _, s := range []*slot{&last, &other} {
		if err != nil {
			break
		}
		b := make([]byte, last.pageSize-proofAt)
		if _, err = f.ReadAt(b, s.at+proofAt); err == nil {
			s.proof, s.proved = unpackProof(b)
		}
	}
	return last, other, cutOff(err)
}

// proves reports whether the proof is one of a transaction.
func (s slot) proves(txid uint64) bool { return s.proved && s.proof.txid == txid }

// cutOffWrite is a transaction that a crash cut off, and the one before it.
type cutOffWrite struct{ last, before slot }

// findCutOff returns the last transaction of a file if a crash cut it off, else nil.
func findCutOff(f io.ReaderAt) (*cutOffWrite, error) {
	last, other, err := readSlots(f)
	if err != nil || other.proves(last.txid) { // as when it was settled
		return nil, err
	}
	if last.proves(last.txid) {
		if holds, err := last.proof.holds(f, last.pageSize); holds || err != nil {
			return nil, err
		}
	}
	if !other.proves(other.txid) {
		return nil, nil // a program without proofs wrote the file, or it is a copy
	}
	return &cutOffWrite{last, other}, nil
}

// takeBack makes the transaction before the last one of the file. It needs the lock of the file.
func (c *cutOffWrite) takeBack(f *os.File, sync *hook) error {
	page := make([]byte, c.before.pageSize)
	if _, err := f.ReadAt(page, c.before.at); err != nil {
		return err
	}
	native.PutUint64(page, uint64(c.last.at)/uint64(c.last.pageSize)) //nolint:gosec // 0 or 1
	if _, err := f.WriteAt(page, c.last.at); err != nil {
		return err
	}
	return sync.call(f.Sync)
}

// bolt is a bbolt database, and the file that it has open. Its transactions that write end with commit.
type bolt struct {
	db   *bbolt.DB
	file *os.File
	hook *hook // for syncs
}

func (b *bolt) sync() error { return b.hook.call(b.db.Sync) }

func (b *bolt) close() error { return b.db.Close() }

// begin prepares the file for transactions that write. The last one before them needs a proof: nothing is taken back
// to one without.
func (b *bolt) begin() error {
	last, _, err := readSlots(b.file)
	if err != nil || last.proves(last.txid) {
		return err
	}
	return b.settle()
}

// commit makes a transaction durable, or returns an error.
func (b *bolt) commit(tx *bbolt.Tx) error {
	before, _, err := readMetas(b.file)
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	after, _, err := readMetas(b.file)
	if err != nil {
		return err
	}
	p := prove(b.file, before.meta, after.meta)
	if p.count == settled {
		if err := b.sync(); err != nil {
			return err
		}
	}
	if _, err := b.file.WriteAt(p.pack(), after.at+proofAt); err != nil {
		return err
	}
	return b.sync()
}

// update runs fn in a transaction that writes.
func (b *bolt) update(fn func(*bbolt.Tx) error) error {
	tx, err := b.db.Begin(true)
	if err != nil {
		return err
	}
	if err = fn(tx); err == nil {
		err = b.commit(tx)
	}
	if err != nil && tx.DB() != nil {
		_ = tx.Rollback() // the error says more
	}
	return err
}

// settle proves the last transaction of a file with nothing to look at, in both meta pages, if it is not so already.
func (b *bolt) settle() error {
	last, other, err := readSlots(b.file)
	if err != nil || other.proves(last.txid) {
		return err
	}
	if !last.proves(last.txid) {
		if err := b.sync(); err != nil {
			return err
		}
	}
	raw := proof{txid: last.txid, count: settled}.pack()
	for _, s := range []slot{last, other} {
		if _, err := b.file.WriteAt(raw, s.at+proofAt); err != nil {
			return err
		}
	}
	return b.sync()
}

// prove returns the proof of a transaction that is written and not synced. Before is the state before it, whose
// pages are all still there.
func prove(f io.ReaderAt, before, after meta) proof {
	p := proof{txid: after.txid}
	most := (after.pageSize - proofAt - proofHead) / 4
	was, is := &trees{f: f, meta: before}, &trees{f: f, meta: after}
	add := func(id uint64, page []byte) error {
		for ; len(page) > 0; id, page = id+1, page[after.pageSize:] {
			if id > math.MaxUint32 || len(p.ids) >= 4*most {
				return errMany
			}
			p.ids = binary.BigEndian.AppendUint32(p.ids, uint32(id))
			p.sum = crc32.Update(p.sum, castagnoli, page[:after.pageSize])
			p.count++
		}
		return nil
	}
	err := is.differ(was, add)
	if err == nil && after.freelist != noFreelist {
		var page []byte
		if page, err = is.page(after.freelist); err == nil {
			err = add(after.freelist, page)
		}
	}
	if err != nil { // many pages, or one of before that cannot be read any more
		return proof{txid: after.txid, count: settled}
	}
	return p
}

var errMany = errors.New("the transaction has many pages")

// trees reads the pages that a transaction leads to. It trusts their structure.
type trees struct {
	meta
	f      io.ReaderAt
	buffer []byte
}

// differ calls each with all pages of the trees that the transaction wrote. As it never writes to a page of the one
// before it, a page that was in the trees of that one too is the same, and so is all below it. Some that it did not write may
// be among them, where a tree became higher or lower.
func (t *trees) differ(was *trees, each func(id uint64, page []byte) error) error {
	old := map[uint64]bool{was.root: true} // met below was.root
	olds, news := []uint64{was.root}, []uint64{t.root}
	for len(news) > 0 {
		now := make(map[uint64]bool, len(news))
		for _, id := range news {
			now[id] = true
		}
		var nextOlds, nextNews []uint64
		for _, id := range olds {
			if now[id] {
				continue
			}
			page, err := was.page(id)
			if err != nil {
				return err
			}
			below, err := children(page)
			if err != nil {
				return err
			}
			for _, child := range below {
				old[child] = true
			}
			nextOlds = append(nextOlds, below...)
		}
		for _, id := range news {
			if old[id] {
				continue
			}
			page, err := t.page(id)
			if err != nil {
				return err
			}
			if err := each(id, page); err != nil {
				return err
			}
			below, err := children(page)
			if err != nil {
				return err
			}
			nextNews = append(nextNews, below...)
		}
		olds, news = nextOlds, nextNews
	}
	return nil
}

// page returns a page and those that belong to it, until the next call.
func (t *trees) page(id uint64) ([]byte, error) {
	if id >= t.high {
		return nil, odd("page %d is beyond the end", id)
	}
	if cap(t.buffer) < t.pageSize {
		t.buffer = make([]byte, t.pageSize)
	}
	page, at := t.buffer[:t.pageSize], int64(id)*int64(t.pageSize) //nolint:gosec // below high
	if _, err := t.f.ReadAt(page, at); err != nil {
		return nil, cutOff(err)
	}
	more := uint64(native.Uint32(page[12:]))
	if native.Uint64(page) != id || more >= t.high-id {
		return nil, odd("page %d says that it is page %d", id, native.Uint64(page))
	}
	if more == 0 {
		return page, nil
	}
	t.buffer = append(page, make([]byte, int(more)*t.pageSize)...) //nolint:gosec // below high
	_, err := t.f.ReadAt(t.buffer[t.pageSize:], at+int64(t.pageSize))
	return t.buffer, cutOff(err)
}

// children returns the pages that a page leads to: those of a branch, and the roots of the buckets in a leaf.
func children(page []byte) (ids []uint64, err error) {
	kind, count := native.Uint16(page[8:]), int(native.Uint16(page[10:]))
	if headSize+count*elementSize > len(page) {
		return nil, odd("a page has %d elements", count)
	}
	for i := range count {
		e := page[headSize+i*elementSize:]
		id := native.Uint64(e[8:])
		if kind == kindLeaf {
			if native.Uint32(e) == 0 { // no bucket
				continue
			}
			value := int64(native.Uint32(e[4:])) + int64(native.Uint32(e[8:])) // behind its key
			if value+headSize > int64(len(e)) {
				return nil, odd("an element is larger than its page")
			}
			id = native.Uint64(e[value:]) // 0: the bucket is in the value
		}
		if id != 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
