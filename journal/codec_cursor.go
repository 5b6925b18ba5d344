package journal

import (
	"encoding/binary"
	"math"
	"time"
)

// cursorVersion is the version byte of a packed cursor.
const cursorVersion = 1

// PackCursor packs all of c so that the bytes of two cursors compare as
// Cursor.Compare does: the fields stand in its order, each in a form that keeps
// the order. So a script finds the greater one without reading a number
// (invariant 3). The fields that decide have a fixed width: they are the first 33
// bytes.
func PackCursor(c Cursor) []byte {
	b := append(make([]byte, 0, 64), cursorVersion)
	b = binary.BigEndian.AppendUint64(b, c.Generation)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Position))
	b = binary.BigEndian.AppendUint32(b, c.Nudge)
	b = binary.BigEndian.AppendUint32(b, c.Attempt)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Nonce))
	b = appendShort(b, uint64(c.Step))
	b = appendTime(b, c.NextAttemptAt)
	b = appendTime(b, c.FirstAttemptAt)
	b = binary.BigEndian.AppendUint16(b, statusBias+uint16(int16(c.LastStatus))) //nolint:gosec // three digits
	b = appendShort(b, c.Seq)
	return appendTime(b, c.Until)
}

// statusBias makes the negative ones of LastStatus come first.
const statusBias = 1 << 15

// appendShort appends a number as the count of its bytes, then these, the first
// of which is not 0.
func appendShort(b []byte, v uint64) []byte {
	var whole [8]byte
	binary.BigEndian.PutUint64(whole[:], v)
	n := 0
	for ; v > 0; v >>= 8 {
		n++
	}
	return append(append(b, byte(n)), whole[8-n:]...)
}

// yearOne is the zero time in seconds since 1970. Nothing is before it.
var yearOne = time.Time{}.Unix()

func appendTime(b []byte, t time.Time) []byte {
	b = appendShort(b, uint64(max(t.Unix()-yearOne, 0)))
	return appendShort(b, uint64(t.Nanosecond())) //nolint:gosec // not negative
}

// UnpackCursor reads what PackCursor wrote. Its errors wrap ErrPacked.
func UnpackCursor(b []byte) (Cursor, error) {
	u := NewUnpacker("a cursor", cursorVersion, b)
	var c Cursor
	c.Generation, c.Position = u.Fixed(), Position(u.Fixed())
	c.Nudge, c.Attempt = uint32(readBytes(u, 4)), uint32(readBytes(u, 4)) //nolint:gosec // four bytes
	c.Nonce = Nonce(u.Fixed())
	step := readShort(u)
	if step > math.MaxUint32 {
		u.Fail("a number is too large")
	}
	c.Step = uint32(step) //nolint:gosec // looked at
	c.NextAttemptAt, c.FirstAttemptAt = readTime(u), readTime(u)
	c.LastStatus = int(int16(uint16(readBytes(u, 2)) - statusBias)) //nolint:gosec // two bytes
	c.Seq, c.Until = readShort(u), readTime(u)
	if err := u.Done(); err != nil {
		return Cursor{}, err
	}
	return c, nil
}

// readBytes reads a number of n bytes.
func readBytes(u *Unpacker, n int) (v uint64) {
	for range n {
		v = v<<8 | uint64(u.byte())
	}
	return v
}

func readShort(u *Unpacker) uint64 {
	n := int(u.byte())
	if n > 8 {
		u.Fail("a number is too large")
		return 0
	}
	v := readBytes(u, n)
	if n > 0 && v>>(8*(n-1)) == 0 {
		u.Fail("a number is written in more bytes than it needs")
	}
	return v
}

func readTime(u *Unpacker) time.Time {
	seconds, nanoseconds := readShort(u), readShort(u)
	if nanoseconds >= 1e9 || seconds > math.MaxInt64/2 {
		u.Fail("a time is none")
		return time.Time{}
	}
	return time.Unix(int64(seconds)+yearOne, int64(nanoseconds)).UTC()
}
