package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
)

// Format says how a store packs its values. A version of this program reads every
// Format, and writes a store in the Previous one until the operator finishes the upgrade:
// up to then the version before it reads the store too.
//
// When a value gets a new field, Newest writes it, and what Newest wrote becomes
// Previous. Both stores then get the next number of their layout.
type Format int

// The formats.
const (
	Previous Format = iota
	Newest
)

// Heads, entries, intervals, cursors and subscriptions are stored as packed values: a version
// byte, then the fields in a fixed order. A reader refuses an unknown version, so the next
// version can add a field.

// packedVersion is the version byte of the values of this package, except cursors.
const packedVersion = 3

// ErrPacked is wrapped by every error of an Unpack function: the stored value
// is damaged, or was written by a newer version.
var ErrPacked = errors.New("a stored value cannot be read")

// ErrNewer is wrapped, beside ErrPacked, by the error about a value that a newer
// version wrote. Such a value is not damaged.
var ErrNewer = errors.New("a newer version wrote it")

// Fixed is a number that is packed in eight bytes. A uint64 takes as many as it needs.
type Fixed uint64

// Packer builds a packed value, field by field. NewPacker starts one.
type Packer struct{ b []byte }

// NewPacker returns a Packer whose value begins with the version byte.
func NewPacker(version byte) *Packer { return &Packer{b: append(make([]byte, 0, 256), version)} }

// Pack returns the packed value of these fields (Packer.Fields).
func Pack(version byte, fields ...any) []byte {
	p := NewPacker(version)
	p.Fields(fields...)
	return p.Packed()
}

// Packed returns the value. The Packer must not be used afterwards.
func (p *Packer) Packed() []byte { return p.b }

// Uint appends a number in as many bytes as it needs.
func (p *Packer) Uint(v uint64) { p.b = binary.AppendUvarint(p.b, v) }

// Int appends a signed number in as many bytes as it needs.
func (p *Packer) Int(v int64) { p.b = binary.AppendVarint(p.b, v) }

// Bool appends a truth value.
func (p *Packer) Bool(v bool) {
	if v {
		p.b = append(p.b, 1)
	} else {
		p.b = append(p.b, 0)
	}
}

// Text appends a string.
func (p *Packer) Text(v string) {
	p.Uint(uint64(len(v)))
	p.b = append(p.b, v...)
}

// time appends an instant, to the nanosecond and without its zone.
func (p *Packer) time(v time.Time) {
	if v.IsZero() {
		p.Uint(0)
		return
	}
	p.Uint(uint64(v.Nanosecond()) + 1) //nolint:gosec // 0 to 999999999
	p.Int(v.Unix())
}

// Fields appends fields: pointers to values of the types in its switch. Unpacker.Fields
// reads the same list, so the order of the fields is written down once.
func (p *Packer) Fields(fields ...any) {
	for _, field := range fields {
		switch v := field.(type) {
		case *uuid.UUID:
			p.b = append(p.b, v[:]...)
		case *[32]byte:
			p.b = append(p.b, v[:]...)
		case *byte:
			p.b = append(p.b, *v)
		case *bool:
			p.Bool(*v)
		case *int:
			p.Int(int64(*v))
		case *int64:
			p.Int(*v)
		case *uint32:
			p.Uint(uint64(*v))
		case *uint64:
			p.Uint(*v)
		case *Fixed:
			p.fixed(uint64(*v))
		case *string:
			p.Text(*v)
		case *[]string:
			p.Uint(uint64(len(*v)))
			for _, text := range *v {
				p.Text(text)
			}
		case *time.Time:
			p.time(*v)
		case *Anchor:
			p.anchor(v)
		case *[]Gap:
			p.Uint(uint64(len(*v)))
			for i := range *v {
				p.gap(&(*v)[i])
			}
		case **Gap:
			p.Bool(*v != nil)
			if *v != nil {
				p.gap(*v)
			}
		default:
			panic("journal: a field has a type that cannot be packed") // without the type, so that fields do not escape
		}
	}
}

func (p *Packer) fixed(v uint64) { p.b = binary.BigEndian.AppendUint64(p.b, v) }

func (p *Packer) anchor(v *Anchor) {
	p.fixed(uint64(v.Position))
	p.fixed(uint64(v.Nonce))
	p.Uint(v.Seq)
	p.time(v.Until)
}

func (p *Packer) gap(v *Gap) {
	p.time(v.From)
	p.time(v.Until)
	p.Uint(v.Count)
	p.Text(v.Reason)
	p.time(v.At)
	p.fixed(uint64(v.Position))
	p.Uint(v.Seq)
}

// Unpacker reads a packed value, each field as Packer appended it. After the first field
// that cannot be read, all others are zero, and Done returns what was wrong. It copies what
// it returns.
type Unpacker struct {
	what string
	b    []byte
	err  error
}

// NewUnpacker returns an Unpacker for a value of the given version; what names
// the kind of value in errors.
func NewUnpacker(what string, version byte, b []byte) *Unpacker {
	u := &Unpacker{what: what, b: b}
	switch v := u.byte(); {
	case u.err != nil || v == version:
	case v > version:
		u.err = fmt.Errorf("%w: %s: it has version %d, this program knows %d; %w", ErrPacked, what, v, version, ErrNewer)
		u.b = nil
	default:
		u.Fail(fmt.Sprintf("it has version %d, this program knows %d", v, version))
	}
	return u
}

// Unpack reads into v the value that Pack wrote of its fields. If it cannot be read, v is
// zero, and the error wraps ErrPacked. What names the kind of value in errors.
func Unpack[T any](v *T, what string, version byte, b []byte, fields ...any) error {
	u := NewUnpacker(what, version, b)
	u.Fields(fields...)
	err := u.Done()
	if err != nil {
		var zero T
		*v = zero
	}
	return err
}

// Fail records why the value cannot be read, unless an earlier reason is known.
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

// next returns the next n bytes, not copied, or nil.
func (u *Unpacker) next(n uint64) []byte {
	if n > uint64(len(u.b)) {
		u.Fail("it is cut short")
		return nil
	}
	out := u.b[:n]
	u.b = u.b[n:]
	return out
}

// byte reads one byte.
func (u *Unpacker) byte() byte {
	if b := u.next(1); b != nil {
		return b[0]
	}
	return 0
}

// Bool reads a truth value.
func (u *Unpacker) Bool() bool { return u.byte() != 0 }

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

// uint32 reads a number that was 32 bits wide.
func (u *Unpacker) uint32() uint32 {
	v := u.Uint()
	if v > math.MaxUint32 {
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
	if b := u.next(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Text reads a string.
func (u *Unpacker) Text() string { return string(u.next(u.Uint())) }

// time reads an instant, in UTC.
func (u *Unpacker) time() time.Time {
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

// Fields reads fields that Packer.Fields appended. An empty list is nil.
func (u *Unpacker) Fields(fields ...any) {
	for _, field := range fields {
		switch v := field.(type) {
		case *uuid.UUID:
			copy(v[:], u.next(16))
		case *[32]byte:
			copy(v[:], u.next(32))
		case *byte:
			*v = u.byte()
		case *bool:
			*v = u.Bool()
		case *int:
			*v = int(u.Int())
		case *int64:
			*v = u.Int()
		case *uint32:
			*v = u.uint32()
		case *uint64:
			*v = u.Uint()
		case *Fixed:
			*v = Fixed(u.Fixed())
		case *string:
			*v = u.Text()
		case *[]string:
			for range u.Count() {
				*v = append(*v, u.Text())
			}
		case *time.Time:
			*v = u.time()
		case *Anchor:
			*v = u.anchor()
		case *[]Gap:
			for range u.Count() {
				*v = append(*v, u.gap())
			}
		case **Gap:
			if u.Bool() {
				g := u.gap()
				*v = &g
			}
		default:
			panic("journal: a field has a type that cannot be unpacked")
		}
	}
}

func (u *Unpacker) anchor() Anchor {
	return Anchor{Position: Position(u.Fixed()), Nonce: Nonce(u.Fixed()), Seq: u.Uint(), Until: u.time()}
}

func (u *Unpacker) gap() Gap {
	return Gap{
		From: u.time(), Until: u.time(), Count: u.Uint(), Reason: u.Text(), At: u.time(),
		Position: Position(u.Fixed()), Seq: u.Uint(),
	}
}
