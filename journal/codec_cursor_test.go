package journal

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// packedCursor is one with all fields set.
func packedCursor() Cursor {
	now := time.Date(2026, 11, 21, 15, 0, 0, 123456789, time.UTC)
	return Cursor{
		Generation: uint64(now.UnixMicro()),
		Anchor:     Anchor{Position: Position(now.UnixNano()), Nonce: 1<<63 + 5, Seq: 700, Until: now},
		Nudge:      2, Attempt: 3, Step: 4, NextAttemptAt: now.Add(time.Hour), FirstAttemptAt: now, LastStatus: StatusTimeout,
	}
}

func TestCursorIsReadAsItWasPacked(t *testing.T) {
	for _, c := range []Cursor{{}, packedCursor(), {LastStatus: 599, Step: 1<<32 - 1, Anchor: Anchor{Seq: 1<<64 - 1}}} {
		if got, err := UnpackCursor(PackCursor(c)); err != nil || got != c {
			t.Errorf("%+v came back as %+v, %v", c, got, err)
		}
	}
	if n := len(PackCursor(packedCursor())); n > 80 {
		t.Errorf("a cursor takes %d bytes", n)
	}
}

// Invariant 3: a script sees an order in the bytes, and it is that of Go. Lua's
// numbers hold two of these positions to be the same.
func TestPackedCursorsAreOrdered_Position100ns(t *testing.T) {
	a := packedCursor()
	b := a
	b.Position += 100
	if float64(a.Position) != float64(b.Position) {
		t.Fatal("the positions differ as floating-point numbers, so they show nothing")
	}
	if bytes.Compare(PackCursor(a), PackCursor(b)) >= 0 {
		t.Error("of two positions 100 ns apart, the later one is not the greater")
	}
}

func TestDamagedCursorIsRefused(t *testing.T) {
	whole := PackCursor(packedCursor())
	for n := range whole {
		if _, err := UnpackCursor(whole[:n]); !errors.Is(err, ErrPacked) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	if _, err := UnpackCursor(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrPacked) {
		t.Errorf("with one byte more: %v", err)
	}
	whole[0]++
	if _, err := UnpackCursor(whole); !errors.Is(err, ErrPacked) {
		t.Errorf("of a newer version: %v", err)
	}
}

// Invariant 3: the order of the bytes is Cursor.Compare, in each field.
func FuzzPackedCursorsAreOrdered(f *testing.F) {
	base := uint64(packedCursor().Position)
	f.Add(uint64(1), base, uint32(0), uint32(0), uint64(7), uint32(0), int64(0), int64(0), int16(200), uint64(1),
		uint64(0), int64(100), int32(0), int32(0), int64(0), int32(0), int64(0), int64(0), int16(0), int64(0))
	f.Add(base/1000, base, uint32(1), uint32(1<<31), uint64(1<<63), uint32(255), int64(1), int64(1e9), int16(-1), uint64(255),
		uint64(1), int64(-100), int32(-1), int32(1), int64(-1), int32(1), int64(-1), int64(1), int16(2), int64(1))
	f.Add(uint64(1), base, uint32(0), uint32(0), uint64(7), uint32(0), int64(0), int64(0), int16(-1), uint64(1),
		uint64(0), int64(0), int32(0), int32(0), int64(0), int32(0), int64(0), int64(0), int16(201), int64(0))
	f.Fuzz(func(t *testing.T, generation, position uint64, nudge, attempt uint32, nonce uint64, step uint32, next, first int64, status int16, seq uint64,
		dGeneration uint64, dPosition int64, dNudge, dAttempt int32, dNonce int64, dStep int32, dNext, dFirst int64, dStatus int16, dSeq int64,
	) {
		at := func(ns int64) time.Time {
			if ns == 0 {
				return time.Time{}
			}
			return time.Unix(0, ns).UTC()
		}
		c := Cursor{
			Generation: generation, Anchor: Anchor{Position: Position(position), Nonce: Nonce(nonce), Seq: seq, Until: at(first)},
			Nudge: nudge, Attempt: attempt, Step: step, NextAttemptAt: at(next), FirstAttemptAt: at(first), LastStatus: int(status),
		}
		d := c
		d.Generation += dGeneration
		d.Position += Position(dPosition)
		d.Nudge += uint32(dNudge)
		d.Attempt += uint32(dAttempt)
		d.Nonce += Nonce(dNonce)
		d.Step += uint32(dStep)
		d.Seq += uint64(dSeq)
		d.NextAttemptAt, d.FirstAttemptAt, d.LastStatus = at(next+dNext), at(first+dFirst), int(status+dStatus)
		a, b := PackCursor(c), PackCursor(d)
		if bytes.Compare(a, b) != c.Compare(d) {
			t.Errorf("%x and %x compare as %d, and the cursors %+v and %+v as %d", a, b, bytes.Compare(a, b), c, d, c.Compare(d))
		}
		if got, err := UnpackCursor(b); err != nil || got != d {
			t.Errorf("%+v came back as %+v, %v", d, got, err)
		}
	})
}

func FuzzUnPackCursor(f *testing.F) {
	f.Add(PackCursor(Cursor{}))
	f.Add(PackCursor(packedCursor()))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := UnpackCursor(b)
		if err != nil {
			if !errors.Is(err, ErrPacked) {
				t.Errorf("%v does not wrap ErrPacked", err)
			}
			return
		}
		if again := PackCursor(c); !bytes.Equal(again, b) {
			t.Errorf("%x is packed again as %x", b, again)
		}
	})
}
