package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Stores keep heads, entries, intervals, cursors and subscriptions as packed
// values: a version byte, then the fields in a fixed order. A reader refuses a
// version it does not know, so that a field can be added under the next one.

// packedVersion is the version byte of what this package packs.
const packedVersion = 3

// ErrPacked is wrapped by every error of an Unpack function: the stored value
// is damaged, or was written by a newer version.
var ErrPacked = errors.New("a stored value cannot be read")

// ErrNewer is wrapped, beside ErrPacked, by the error about a value that a newer
// version wrote. Such a value is not damaged.
var ErrNewer = errors.New("a newer version wrote it")

// Packer builds a packed value, field by field. NewPacker starts one.
type Packer struct{ b []byte }

// NewPacker returns a Packer whose value begins with the version byte.
func NewPacker(version byte) *Packer { return &Packer{b: append(make([]byte, 0, 256), version)} }

// Packed returns the value. The Packer must not be used afterwards.
func (p *Packer) Packed() []byte { return p.b }

// Byte appends one byte.
func (p *Packer) Byte(v byte) { p.b = append(p.b, v) }

// Bool appends a truth value.
func (p *Packer) Bool(v bool) {
	if v {
		p.Byte(1)
	} else {
		p.Byte(0)
	}
}

// Uint appends a number in as many bytes as it needs.
func (p *Packer) Uint(v uint64) { p.b = binary.AppendUvarint(p.b, v) }

// Int appends a signed number in as many bytes as it needs.
func (p *Packer) Int(v int64) { p.b = binary.AppendVarint(p.b, v) }

// Fixed appends a number in eight bytes.
func (p *Packer) Fixed(v uint64) { p.b = binary.BigEndian.AppendUint64(p.b, v) }

// Text appends a string.
func (p *Packer) Text(v string) {
	p.Uint(uint64(len(v)))
	p.b = append(p.b, v...)
}

// ID appends an id.
func (p *Packer) ID(v uuid.UUID) { p.b = append(p.b, v[:]...) }

// Hash appends a SHA-256.
func (p *Packer) Hash(v [32]byte) { p.b = append(p.b, v[:]...) }

// Time appends an instant, to the nanosecond and without its zone.
func (p *Packer) Time(v time.Time) {
	if v.IsZero() {
		p.Uint(0)
		return
	}
	p.Uint(uint64(v.Nanosecond()) + 1) //nolint:gosec // 0 to 999999999
	p.Int(v.Unix())
}

// Anchor appends an anchor.
func (p *Packer) Anchor(v Anchor) {
	p.Fixed(uint64(v.Position))
	p.Fixed(uint64(v.Nonce))
	p.Uint(v.Seq)
	p.Time(v.Until)
}

// Gap appends a gap.
func (p *Packer) Gap(v Gap) {
	p.Time(v.From)
	p.Time(v.Until)
	p.Uint(v.Count)
	p.Text(v.Reason)
	p.Time(v.At)
	p.Fixed(uint64(v.Position))
	p.Uint(v.Seq)
}

// Gaps appends a list of gaps.
func (p *Packer) Gaps(v []Gap) {
	p.Uint(uint64(len(v)))
	for _, g := range v {
		p.Gap(g)
	}
}

// Unpacker reads a packed value, each field with the method of the name under
// which Packer appended it. After the first field that cannot be read all
// others are zero; Done says what was wrong. It copies what it returns.
type Unpacker struct {
	what string
	b    []byte
	err  error
}

// NewUnpacker returns an Unpacker for a value of the given version; what names
// the kind of value in errors.
func NewUnpacker(what string, version byte, b []byte) *Unpacker {
	u := &Unpacker{what: what, b: b}
	switch v := u.Byte(); {
	case u.err != nil || v == version:
	case v > version:
		u.err = fmt.Errorf("%w: %s: it has version %d, this program knows %d; %w", ErrPacked, what, v, version, ErrNewer)
		u.b = nil
	default:
		u.Fail(fmt.Sprintf("it has version %d, this program knows %d", v, version))
	}
	return u
}

// Fail records why the value cannot be read, unless that is known already.
func (u *Unpacker) Fail(why string) {
	if u.err == nil {
		u.err = fmt.Errorf("%w: %s: %s", ErrPacked, u.what, why)
	}
	u.b = nil
}

// Done returns what was wrong, bytes that are left over included.
func (u *Unpacker) Done() error {
	if u.err == nil && len(u.b) > 0 {
		u.Fail(fmt.Sprintf("%d bytes are left over", len(u.b)))
	}
	return u.err
}

// take returns the next n bytes, not copied, or nil.
func (u *Unpacker) take(n uint64) []byte {
	if n > uint64(len(u.b)) {
		u.Fail("it is cut short")
		return nil
	}
	out := u.b[:n]
	u.b = u.b[n:]
	return out
}

// Byte reads one byte.
func (u *Unpacker) Byte() byte {
	if b := u.take(1); b != nil {
		return b[0]
	}
	return 0
}

// Bool reads a truth value.
func (u *Unpacker) Bool() bool { return u.Byte() != 0 }

// Uint reads a number.
func (u *Unpacker) Uint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.Fail("it is cut short")
		return 0
	}
	u.b = u.b[n:]
	return v
}

// Uint32 reads a number that was 32 bits wide.
func (u *Unpacker) Uint32() uint32 {
	v := u.Uint()
	if v > 1<<32-1 {
		u.Fail("a number is too large")
		return 0
	}
	return uint32(v)
}

// Int reads a signed number.
func (u *Unpacker) Int() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.Fail("it is cut short")
		return 0
	}
	u.b = u.b[n:]
	return v
}

// Fixed reads a number of eight bytes.
func (u *Unpacker) Fixed() uint64 {
	if b := u.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Text reads a string.
func (u *Unpacker) Text() string { return string(u.take(u.Uint())) }

// ID reads an id.
func (u *Unpacker) ID() (id uuid.UUID) {
	copy(id[:], u.take(16))
	return id
}

// Hash reads a SHA-256.
func (u *Unpacker) Hash() (h [32]byte) {
	copy(h[:], u.take(32))
	return h
}

// Time reads an instant, in UTC.
func (u *Unpacker) Time() time.Time {
	n := u.Uint()
	if n == 0 {
		return time.Time{}
	}
	if n > 1e9 {
		u.Fail("a time has more than a second's nanoseconds")
		return time.Time{}
	}
	s := u.Int()
	if u.err != nil {
		return time.Time{}
	}
	return time.Unix(s, int64(n)-1).UTC()
}

// Count reads the length of a list whose items take at least one byte each, so
// that a damaged one does not ask for the memory of the machine.
func (u *Unpacker) Count() int {
	n := u.Uint()
	if n > uint64(len(u.b)) {
		u.Fail("a list is longer than the value")
		return 0
	}
	return int(n) //nolint:gosec // no more than len(u.b)
}

// Anchor reads an anchor.
func (u *Unpacker) Anchor() Anchor {
	return Anchor{Position: Position(u.Fixed()), Nonce: Nonce(u.Fixed()), Seq: u.Uint(), Until: u.Time()}
}

// Gap reads a gap.
func (u *Unpacker) Gap() Gap {
	return Gap{
		From: u.Time(), Until: u.Time(), Count: u.Uint(), Reason: u.Text(), At: u.Time(),
		Position: Position(u.Fixed()), Seq: u.Uint(),
	}
}

// Gaps reads a list of gaps; an empty one is nil.
func (u *Unpacker) Gaps() (gaps []Gap) {
	for range u.Count() {
		gaps = append(gaps, u.Gap())
	}
	return gaps
}
