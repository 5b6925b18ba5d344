package boltfile

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"iter"

	"go.etcd.io/bbolt"
)

// castagnoli is the polynomial for which processors have an instruction. Any CRC-32
// finds each change of up to 32 bits in a row.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is the length of the checksums before each value: that of its bucket and key, then that of
// bucket, key and value, four bytes each.
const sumSize = 8

// sums returns the two checksums of a value. Seed is that of the bucket's name.
func sums(seed uint32, key, value []byte) (ofKey, ofAll uint32) {
	ofKey = crc32.Update(seed, castagnoli, key)
	return ofKey, crc32.Update(ofKey, castagnoli, value)
}

func seedOf(bucket []byte) uint32 { return crc32.Checksum(bucket, castagnoli) }

// Tx is a transaction. It is valid only within the function that received it, and so is every byte
// that it returns.
type Tx struct {
	tx     *bbolt.Tx
	d      *DB
	writes int
	inside bool // a call of bbolt is under way, so a panic is about the file
}

// ID is the number of the transaction. It grows with each that was written.
func (t *Tx) ID() int { return t.tx.ID() }

// Bucket returns one of Options.Buckets.
func (t *Tx) Bucket(name []byte) Bucket {
	t.inside = true
	b := t.tx.Bucket(name)
	t.inside = false
	return Bucket{b: b, tx: t, name: name, seed: seedOf(name), pass: t.d.o.PassDamage}
}

// Clear empties a bucket.
func (t *Tx) Clear(name []byte) error {
	t.inside = true
	t.writes++
	err := t.tx.DeleteBucket(name)
	if err == nil {
		_, err = t.tx.CreateBucket(name)
	}
	t.inside = false
	return err
}

// Bucket is a set of values by key, in the order of the bytes of the keys.
type Bucket struct {
	b    *bbolt.Bucket
	tx   *Tx
	name []byte
	seed uint32
	pass bool // a damaged value is empty
}

// Get returns the value of a key; nil: there is none. A damaged value ends the
// transaction with a *DamagedError, or is empty where Options.PassDamage is set.
func (b Bucket) Get(key []byte) []byte {
	v := b.get(key)
	if v == nil {
		return nil
	}
	return b.value(key, v)
}

// get returns what is stored under a key: the checksums and the value.
func (b Bucket) get(key []byte) []byte {
	b.tx.inside = true
	v := b.b.Get(key)
	b.tx.inside = false
	return v
}

// Raw returns the value of a key even if it is damaged; nil: there is none, or it is shorter than its
// checksums.
func (b Bucket) Raw(key []byte) []byte {
	v := b.get(key)
	if len(v) < sumSize {
		return nil
	}
	return v[sumSize:]
}

// Strict returns the bucket without Options.PassDamage.
func (b Bucket) Strict() Bucket {
	b.pass = false
	return b
}

// value compares the checksums of a stored value and returns the rest of it.
func (b Bucket) value(key, v []byte) []byte {
	switch {
	case whole(b.seed, key, v):
		return v[sumSize:]
	case b.pass:
		return []byte{}
	}
	panic(b.tx.d.damaged(fmt.Errorf("the checksum of the value of %q in %s is wrong", key, b.name)))
}

// Refuse ends the transaction with a *DamagedError: the checksum of a value is right, and
// its reader can make nothing of it. Options.PassDamage does not matter.
func (b Bucket) Refuse(key []byte, why error) {
	panic(b.tx.d.damaged(fmt.Errorf("the value of %q in %s: %w", key, b.name, why)))
}

// GetJSON decodes the value of a key into v, and returns false if there is none. A value
// that cannot be decoded ends the transaction with a *DamagedError.
func (b Bucket) GetJSON(key []byte, v any) bool {
	raw := b.Get(key)
	if raw == nil {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		b.Refuse(key, err)
	}
	return true
}

// PutJSON stores v as JSON. The error also says that v cannot be encoded.
func (b Bucket) PutJSON(key []byte, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, raw)
}

// Put stores a value. The caller may change key and value when it returns.
func (b Bucket) Put(key, value []byte) error {
	ofKey, ofAll := sums(b.seed, key, value)
	v := binary.BigEndian.AppendUint32(make([]byte, 0, sumSize+len(value)), ofKey)
	v = append(binary.BigEndian.AppendUint32(v, ofAll), value...)
	b.tx.writes++
	b.tx.inside = true
	err := b.b.Put(key, v)
	b.tx.inside = false
	return err
}

// Delete removes a key, if it is there.
func (b Bucket) Delete(key []byte) error {
	b.tx.writes++
	b.tx.inside = true
	err := b.b.Delete(key)
	b.tx.inside = false
	return err
}

// NextSequence returns 1 when it is called for the first time, then 2 and so on.
func (b Bucket) NextSequence() (uint64, error) {
	n := b.Sequence() + 1
	return n, b.tx.Bucket(aboutBucket).Put(sequenceKey(b.name), binary.BigEndian.AppendUint64(nil, n))
}

// Sequence returns what NextSequence returned last; 0: nothing.
func (b Bucket) Sequence() uint64 {
	return readNumber(b.tx.Bucket(aboutBucket).Get(sequenceKey(b.name)))
}

// Dense makes bbolt fill the pages of a bucket nearly to the end. This saves space where each new key
// is greater than all others. It lasts until the end of the transaction.
func (b Bucket) Dense() { b.b.FillPercent = 0.95 }

// Len counts the keys.
func (b Bucket) Len() (n int) {
	c := b.Cursor()
	for k, _ := c.c.First(); k != nil; k, _ = c.c.Next() {
		n++
	}
	return n
}

// ForEach calls fn with each key and its value, until it returns an error.
func (b Bucket) ForEach(fn func(k, v []byte) error) error {
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// From goes through the keys and values from a key on, in the order of ForEach; nil: all of
// them. What is written to the bucket meanwhile makes it useless.
func (b Bucket) From(key []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		c := b.Cursor()
		k, v := c.Seek(key)
		for k != nil && yield(k, v) {
			k, v = c.Next()
		}
	}
}

// Cursor returns a Cursor that stands before the first key.
func (b Bucket) Cursor() Cursor {
	b.tx.inside = true
	c := b.b.Cursor()
	b.tx.inside = false
	return Cursor{c, b}
}

// Cursor goes through a bucket. Its methods return a key and its value like Bucket.Get; a nil key:
// there is no more. A write to the bucket makes the cursor invalid.
type Cursor struct {
	c *bbolt.Cursor
	b Bucket
}

// First goes to the first key.
func (c Cursor) First() (k, v []byte) {
	c.b.tx.inside = true
	return c.at(c.c.First())
}

// Last goes to the last key.
func (c Cursor) Last() (k, v []byte) {
	c.b.tx.inside = true
	return c.at(c.c.Last())
}

// Seek goes to a key, or if it is not there to the next one.
func (c Cursor) Seek(key []byte) (k, v []byte) {
	c.b.tx.inside = true
	return c.at(c.c.Seek(key))
}

// Next goes to the next key.
func (c Cursor) Next() (k, v []byte) {
	c.b.tx.inside = true
	return c.at(c.c.Next())
}

func (c Cursor) at(k, v []byte) ([]byte, []byte) {
	c.b.tx.inside = false
	if k == nil {
		return nil, nil
	}
	return k, c.b.value(k, v)
}

// aboutBucket is the bucket of this package: formatKey, and the sequences.
var (
	aboutBucket = []byte("boltfile")
	formatKey   = []byte("format")
)

// Format returns the version of what the file holds.
func (t *Tx) Format() uint64 { return readNumber(t.Bucket(aboutBucket).Get(formatKey)) }

// SetFormat says that the file holds what a version of the program with this
// Options.Format writes. Programs that know only a lower one can no longer open it.
func (t *Tx) SetFormat(format uint64) error {
	return t.Bucket(aboutBucket).Put(formatKey, binary.BigEndian.AppendUint64(nil, format))
}

func sequenceKey(bucket []byte) []byte { return append([]byte("sequence "), bucket...) }

// readNumber reads eight bytes; 0 where there are others.
func readNumber(v []byte) uint64 {
	if len(v) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}
