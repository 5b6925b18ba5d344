package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"math/bits"
	"slices"
)

// The layout of a bbolt file, in the byte order of the machine: pages of one size, of
// which 0 and 1 are meta pages and the others nodes of trees, or the list of free
// pages. A page begins with its number (8 bytes), its kind (2), a count (2), and how
// many pages after it belong to it (4). A node has elements of 16 bytes, then the keys
// and values in the order of the elements.
const (
	headSize    = 16 // of a page, and of a bucket: the number of its root (8), a sequence (8)
	elementSize = 16

	kindBranch   = 0x01
	kindLeaf     = 0x02
	kindFreelist = 0x10

	magic       = 0xED0CDAED
	version     = 2
	noFreelist  = 1<<64 - 1
	maxKeySize  = 32768
	minPageSize = 1 << 10
	maxPageSize = 1 << 16
)

var native = binary.NativeEndian

// errOdd is wrapped by each error about the structure of a file.
var errOdd = errors.New("its structure is wrong")

func odd(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errOdd}, args...)...)
}

// structure reads a file page by page. It trusts no byte of it.
type structure struct {
	f       io.ReaderAt
	buckets [][]byte // the file has to have these
	// The file has to have a format from oldest to format.
	oldest, format uint64
	// values: compare all values with their checksums. damaged is called with each one that
	// differs.
	values  bool
	damaged func(bucket, key []byte)

	pageSize int
	high     uint64   // the pages from this one on are not used
	seen     []uint64 // a bit for each page that was met
	buffers  [][]byte // by depth
	about    map[string][]byte
	records  int
}

// meta is the content of a meta page.
type meta struct {
	pageSize             int
	root, freelist, high uint64
	txid                 uint64
}

// readMeta reads the meta page at an offset.
func readMeta(f io.ReaderAt, at int64) (m meta, err error) {
	var b [headSize + 64]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		return m, cutOff(err)
	}
	p := b[headSize:]
	h := fnv.New64a()
	_, _ = h.Write(p[:56]) // never fails
	if native.Uint32(p) != magic || native.Uint32(p[4:]) != version || native.Uint64(p[56:]) != h.Sum64() {
		return m, odd("the checksum of a meta page is wrong")
	}
	return meta{
		pageSize: int(native.Uint32(p[8:])), root: native.Uint64(p[16:]),
		freelist: native.Uint64(p[32:]), high: native.Uint64(p[40:]), txid: native.Uint64(p[48:]),
	}, nil
}

// readMetas reads both meta pages, and returns the one of the last transaction.
//
// Both have to be good, although bbolt needs only one. A write of the other one that was
// cut off would have changed one sector, and disks write whole sectors. With the older meta page, the
// last transaction would be lost without an error.
func readMetas(f io.ReaderAt) (last meta, err error) {
	if last, err = readMeta(f, 0); err != nil {
		return last, err
	}
	if last.pageSize < minPageSize || last.pageSize > maxPageSize {
		return last, odd("a page has %d bytes", last.pageSize)
	}
	other, err := readMeta(f, int64(last.pageSize))
	if other.txid > last.txid {
		last = other
	}
	return last, err
}

// cutOff explains the end of a file.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return odd("the file is cut off")
	}
	return err
}

// read reads the whole structure of a file of so many bytes. Fresh: it has no bucket
// yet. An error that does not wrap errOdd is one of reading.
func (s *structure) read(size int64) (fresh bool, err error) {
	m, err := readMetas(s.f)
	if err != nil {
		return false, err
	}
	if uint64(size)/uint64(m.pageSize) < m.high { //nolint:gosec // no file has a negative size
		return false, odd("the file is cut off: it has %d bytes, and had at least %d", size, m.high*uint64(m.pageSize)) //nolint:gosec // no page has a negative size
	}
	s.pageSize, s.high, s.seen = m.pageSize, m.high, make([]uint64, m.high/64+1)
	if err := s.claim(0, 2); err != nil {
		return false, err
	}
	if fresh, err = s.root(m.root); err != nil {
		return false, err
	}
	return fresh, s.free(m.freelist)
}

// claim records that pages are used. No page may be used twice.
func (s *structure) claim(id, n uint64) error {
	if id >= s.high || n > s.high-id {
		return odd("page %d is beyond the end", id)
	}
	for ; n > 0; id, n = id+1, n-1 {
		if s.seen[id/64]&(1<<(id%64)) != 0 {
			return odd("page %d is used twice", id)
		}
		s.seen[id/64] |= 1 << (id % 64)
	}
	return nil
}

// node is a page with those that belong to it, or one within the value of a bucket.
type node struct {
	s      *structure
	at     int64  // in the file; -1: all of it is in head
	head   []byte // its first page, or all of it
	size   int    // in bytes
	kind   uint16
	count  int
	inline bool
}

// page reads a page. Its bytes are good until the next one of that depth is read.
func (s *structure) page(id uint64, depth int) (*node, error) {
	for len(s.buffers) <= depth {
		s.buffers = append(s.buffers, make([]byte, s.pageSize))
	}
	n := &node{s: s, at: int64(id) * int64(s.pageSize), head: s.buffers[depth][:s.pageSize]} //nolint:gosec // below high
	if id >= s.high {
		return nil, odd("page %d is beyond the end", id)
	}
	if _, err := s.f.ReadAt(n.head, n.at); err != nil {
		return nil, cutOff(err)
	}
	if native.Uint64(n.head) != id {
		return nil, odd("page %d says that it is page %d", id, native.Uint64(n.head))
	}
	more := uint64(native.Uint32(n.head[12:]))
	if err := s.claim(id, 1+more); err != nil {
		return nil, err
	}
	n.size = int(1+more) * s.pageSize //nolint:gosec // below high
	n.parse()
	if s.values && more > 0 {
		n.head = slices.Grow(n.head, n.size-s.pageSize)[:n.size]
		s.buffers[depth] = n.head
		if _, err := s.f.ReadAt(n.head[s.pageSize:], n.at+int64(s.pageSize)); err != nil {
			return nil, cutOff(err)
		}
	}
	return n, nil
}

func (n *node) parse() {
	n.kind, n.count = native.Uint16(n.head[8:]), int(native.Uint16(n.head[10:]))
}

// bytes returns bytes of a node.
func (n *node) bytes(at, length int) ([]byte, error) {
	if at+length <= len(n.head) {
		return n.head[at : at+length], nil
	}
	if n.inline || at+length > n.size {
		return nil, odd("an element is larger than its page")
	}
	b := make([]byte, length)
	_, err := n.s.f.ReadAt(b, n.at+int64(at))
	return b, cutOff(err)
}

// element is one of a leaf, and where its value is within the node.
type element struct {
	n          *node
	bucket     bool
	key        []byte
	at, length int
}

func (e *element) value() ([]byte, error) { return e.n.bytes(e.at, e.length) }

// child is one of a branch.
type child struct {
	key []byte
	id  uint64
}

// elements reads the elements of a node, whose keys have to be within [low, end): a
// leaf's go to each, a branch's are returned. They have to lie one behind the other,
// and the last one has to end on the last page.
func (n *node) elements(low, end []byte, each func(*element) error) (children []child, err error) {
	if n.count == 0 {
		return nil, n.empty()
	}
	at := headSize + n.count*elementSize
	for i := range n.count {
		begin := headSize + i*elementSize
		raw, err := n.bytes(begin, elementSize)
		if err != nil {
			return nil, err
		}
		leaf := n.kind == kindLeaf
		e := &element{n: n}
		place, length, c := native.Uint32(raw), native.Uint32(raw[4:]), child{id: native.Uint64(raw[8:])}
		if leaf {
			flags := place
			if flags > 1 {
				return nil, odd("an element has the flags %x", flags)
			}
			place, length, e.bucket = length, native.Uint32(raw[8:]), flags == 1
			e.length = int(native.Uint32(raw[12:]))
		}
		if int64(begin)+int64(place) != int64(at) || length == 0 || length > maxKeySize {
			return nil, odd("an element is not where it has to be")
		}
		if c.key, err = n.bytes(at, int(length)); err != nil {
			return nil, err
		}
		if order := bytes.Compare(c.key, low); order < 0 || order == 0 && i > 0 || end != nil && bytes.Compare(c.key, end) >= 0 {
			return nil, odd("the key %q is in the wrong place", c.key)
		}
		low = c.key
		at += int(length)
		if !leaf {
			children = append(children, c)
			continue
		}
		e.key, e.at = c.key, at
		if at += e.length; at > n.size {
			return nil, odd("an element is larger than its page")
		}
		if err := each(e); err != nil {
			return nil, err
		}
	}
	if n.inline && at != n.size || !n.inline && at <= n.size-n.s.pageSize {
		return nil, odd("a page is longer than its elements")
	}
	return children, nil
}

// empty is elements for a node that has none, as only the root of a bucket may.
func (n *node) empty() error {
	if n.kind != kindLeaf || len(n.head) != n.size || slices.ContainsFunc(n.head[headSize:], func(b byte) bool { return b != 0 }) {
		return odd("a page has no elements")
	}
	return nil
}

// tree reads a tree from a page on, whose keys have to be within [low, end).
func (s *structure) tree(id uint64, depth int, low, end []byte, each func(*element) error) error {
	n, err := s.page(id, depth)
	switch {
	case err != nil:
		return err
	case n.kind != kindLeaf && n.kind != kindBranch, depth > 0 && n.count == 0:
		return odd("page %d is no page of a tree", id)
	}
	children, err := n.elements(low, end, each)
	for i := 0; err == nil && i < len(children); i++ {
		to := end
		if i+1 < len(children) {
			to = children[i+1].key
		}
		err = s.tree(children[i].id, depth+1, children[i].key, to, each)
	}
	return err
}

// stored is a bucket as the root knows it.
type stored struct {
	name []byte
	id   uint64 // of its root; 0: it is in inline
	node *node
}

// root reads all buckets. The bucket of this package comes first: it says whether the others have a
// known format.
func (s *structure) root(id uint64) (fresh bool, err error) {
	var all []stored
	err = s.tree(id, 0, nil, nil, func(e *element) error {
		v, err := e.value()
		if err != nil {
			return err
		}
		if !e.bucket || len(v) < headSize || native.Uint64(v[8:]) != 0 {
			return odd("%q is no bucket", e.key)
		}
		b := stored{name: bytes.Clone(e.key), id: native.Uint64(v)}
		if b.id == 0 && len(v) < 2*headSize || b.id != 0 && len(v) != headSize {
			return odd("the bucket %q has no content", b.name)
		}
		if b.id == 0 {
			b.node = &node{s: s, head: bytes.Clone(v[headSize:]), size: len(v) - headSize, inline: true}
			b.node.parse()
		}
		all = append(all, b)
		return nil
	})
	if err != nil || len(all) == 0 {
		return err == nil, err
	}
	named := func(name []byte) int {
		return slices.IndexFunc(all, func(b stored) bool { return bytes.Equal(b.name, name) })
	}
	i := named(aboutBucket)
	if i < 0 {
		return false, &versionError{have: 0, oldest: s.oldest, know: s.format}
	}
	if err := s.bucket(all[i], true); err != nil {
		return false, err
	}
	if have := readNumber(s.about[string(formatKey)]); (have < s.oldest || have > s.format) && have != 0 {
		return false, &versionError{have, s.oldest, s.format}
	}
	all = slices.Delete(all, i, i+1)
	for _, name := range s.buckets {
		if i = named(name); i < 0 {
			return false, odd("the bucket %q is missing", name)
		}
		if err := s.bucket(all[i], false); err != nil {
			return false, err
		}
		all = slices.Delete(all, i, i+1)
	}
	if len(all) > 0 || readNumber(s.about[string(formatKey)]) == 0 {
		return false, odd("its buckets are not those that it had")
	}
	return false, nil
}

// bucket reads a bucket. Where about is set, it stores the values in s.about.
func (s *structure) bucket(b stored, about bool) error {
	seed := seedOf(b.name)
	each := func(e *element) error {
		s.records++
		if about {
			v, err := e.value()
			if err == nil && !whole(seed, e.key, v) {
				err = odd("the checksum of the value of %q in %s is wrong", e.key, b.name)
			}
			if err != nil {
				return err
			}
			if s.about == nil {
				s.about = map[string][]byte{}
			}
			s.about[string(e.key)] = bytes.Clone(v[sumSize:])
			return nil
		}
		return s.record(b.name, seed, e)
	}
	if b.node == nil {
		return s.tree(b.id, 0, nil, nil, each)
	}
	if b.node.kind != kindLeaf {
		return odd("the bucket %q has no content", b.name)
	}
	_, err := b.node.elements(nil, nil, each)
	return err
}

// whole reports whether both checksums of a stored value are right.
func whole(seed uint32, key, v []byte) bool {
	if len(v) < sumSize {
		return false
	}
	ofKey, ofAll := sums(seed, key, v[sumSize:])
	return binary.BigEndian.Uint32(v) == ofKey && binary.BigEndian.Uint32(v[4:]) == ofAll
}

// record compares the checksum of a key. Where it differs, and that of the value as well, the key is
// wrong: a record is missing under its true key.
func (s *structure) record(bucket []byte, seed uint32, e *element) error {
	if e.bucket || e.length < sumSize {
		return odd("%q in %s is no record", e.key, bucket)
	}
	head, err := e.n.bytes(e.at, sumSize)
	if err != nil {
		return err
	}
	ofKey := crc32.Update(seed, castagnoli, e.key)
	same := binary.BigEndian.Uint32(head) == ofKey
	if same && !s.values {
		return nil
	}
	v, err := e.value()
	if err != nil {
		return err
	}
	right := binary.BigEndian.Uint32(v[4:]) == crc32.Update(ofKey, castagnoli, v[sumSize:])
	switch {
	case same && right:
	case same || right:
		if s.values {
			s.damaged(bucket, e.key)
		}
	default:
		return odd("the checksum of the key %q in %s is wrong", e.key, bucket)
	}
	return nil
}

// free reads the list of free pages. Every page has to be used or free. A file that was not closed has
// no list.
func (s *structure) free(id uint64) error {
	if id == noFreelist {
		return nil
	}
	n, err := s.page(id, 0)
	if err != nil {
		return err
	}
	at, count := headSize, n.count
	if count == 0xFFFF {
		b, err := n.bytes(at, 8)
		if err != nil {
			return err
		}
		at, count = at+8, int(min(native.Uint64(b), s.high)) //nolint:gosec // pages of a file
	}
	ids, err := n.bytes(at, 8*count)
	if err != nil {
		return err
	}
	if n.kind != kindFreelist {
		return odd("page %d is no list of free pages", id)
	}
	for ; len(ids) > 0; ids = ids[8:] {
		if err := s.claim(native.Uint64(ids), 1); err != nil {
			return err
		}
	}
	known := uint64(0)
	for _, w := range s.seen {
		known += uint64(bits.OnesCount64(w)) //nolint:gosec // at most 64
	}
	if known != s.high {
		return odd("%d pages are neither used nor free", s.high-known)
	}
	return nil
}
