package resourcesync

import (
	"encoding/binary"
	"math/bits"
)

// Most bytes of a document are plain: text and attribute values. These are skipped eight
// at a time, with a word as a vector of bytes.

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// slack is how many bytes must be readable from any place in a window, so that a
// word can be loaded there.
const slack = 8

// zeros flags, by its high bit, the lowest byte of v that is zero, if there is
// one. Bytes above that may be flagged by mistake.
func zeros(v uint64) uint64 { return (v - ones) &^ v }

// below flags the lowest byte of v that is less than n, in the same way.
func below(v, n uint64) uint64 { return (v - n*ones) &^ v }

// plainValue returns the first place from p of a byte that is not of clsValue.
func plainValue(b []byte, p int) int {
	for {
		v := binary.LittleEndian.Uint64(b[p:])
		// "&" and "'" differ in the lowest bit only.
		stop := (v | below(v, ' ') | zeros(v^'<'*ones) | zeros(v^'"'*ones) | zeros((v|ones)^'\''*ones)) & highs
		if stop != 0 {
			return p + bits.TrailingZeros64(stop)/8
		}
		p += 8
	}
}

// plainText returns the first place from p of a byte that is not of clsText, or of a tab
// or a line feed.
func plainText(b []byte, p int) int {
	for {
		v := binary.LittleEndian.Uint64(b[p:])
		stop := (v | below(v, ' ') | zeros(v^'<'*ones) | zeros(v^'&'*ones) | zeros(v^']'*ones)) & highs
		if stop != 0 {
			return p + bits.TrailingZeros64(stop)/8
		}
		p += 8
	}
}
