package resourcesync

import (
	"crypto/md5"  //nolint:gosec // the specification names it; see Algorithm
	"crypto/sha1" //nolint:gosec // as md5
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
	"strings"
)

// Algorithm is a way to compute a digest (DOC-55). MD5 and SHA-1 detect damage, but not
// forgery.
type Algorithm uint8

// The algorithms that are recognised, the weakest first.
const (
	MD5 Algorithm = iota
	SHA1
	SHA256
	SHA384
	SHA512

	algorithmCount
)

var algorithms = [algorithmCount]struct {
	name string
	size int // of a digest, in bytes
	make func() hash.Hash
}{
	MD5:    {"md5", md5.Size, md5.New},
	SHA1:   {"sha-1", sha1.Size, sha1.New},
	SHA256: {"sha-256", sha256.Size, sha256.New},
	SHA384: {"sha-384", sha512.Size384, sha512.New384},
	SHA512: {"sha-512", sha512.Size, sha512.New},
}

// String returns the name as documents write it, such as "sha-256".
func (a Algorithm) String() string {
	if a < algorithmCount {
		return algorithms[a].name
	}
	return fmt.Sprintf("Algorithm(%d)", int(a))
}

// Digests are the digests of one sequence of bytes, from a document or a Hasher: at most
// one of each algorithm. The zero value has none. Digests with the same content are equal
// by ==.
type Digests struct{ sums [algorithmCount]string } // raw bytes, not digits

// ParseHashes reads a list of algorithm:digest as it stands in the attribute hash of
// Entry and Link (DOC-55). It is lenient: white space of any kind may stand between the
// elements, and names and digits may be of either case. It ignores elements that are not
// a recognised algorithm with a hexadecimal digest of its length, such as the MD5 in
// base64 that old versions of a library wrote. An algorithm with two different digests
// counts as absent.
func ParseHashes(s string) Digests {
	var d Digests
	var torn [algorithmCount]bool
	for a, digits := range digestsOf(s) {
		var sum [sha512.Size]byte
		n, _ := hex.Decode(sum[:], []byte(digits)) // these are hexadecimal
		torn[a] = torn[a] || d.sums[a] != "" && d.sums[a] != string(sum[:n])
		d.sums[a] = string(sum[:n])
	}
	for a, t := range torn {
		if t {
			d.sums[a] = ""
		}
	}
	return d
}

// digestsOf goes through the recognised algorithms in a list of algorithm:digest that
// have a hexadecimal digest of their length.
func digestsOf(list string) iter.Seq2[Algorithm, string] {
	return func(yield func(Algorithm, string) bool) {
		for element := range strings.FieldsSeq(list) {
			name, digits, _ := strings.Cut(element, ":")
			for a := range algorithmCount {
				known := len(digits) == 2*algorithms[a].size && strings.EqualFold(name, algorithms[a].name) && all(digits, isHexByte)
				if known && !yield(a, digits) {
					return
				}
			}
		}
	}
}

// hasDigest reports whether ParseHashes finds a digest in list, whether or not another
// one contradicts it.
func hasDigest(list string) bool {
	for range digestsOf(list) {
		return true
	}
	return false
}

// String writes the digests as version 1.1 does: algorithm:digest in lower case, the
// weakest first, with a space between. It is empty if there are none.
func (d Digests) String() string {
	var b strings.Builder
	for _, a := range d.Algorithms() {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%v:%x", a, d.sums[a])
	}
	return b.String()
}

// Algorithms returns the algorithms of the digests, the weakest first.
func (d Digests) Algorithms() []Algorithm {
	var has []Algorithm
	for a := range algorithmCount {
		if d.sums[a] != "" {
			has = append(has, a)
		}
	}
	return has
}

// Sum returns the digest of an algorithm, or nil if there is none. It belongs to the
// caller.
func (d Digests) Sum(a Algorithm) []byte {
	if a >= algorithmCount || d.sums[a] == "" {
		return nil
	}
	return []byte(d.sums[a])
}

// Comparison is the result of comparing two Digests.
type Comparison int

// The outcomes of Digests.Compare.
const (
	// CannotTell: there is no algorithm that both have.
	CannotTell Comparison = iota
	// Different: there is an algorithm of which both have a digest, and not the same.
	Different
	// Equal: there is an algorithm that both have, and the digests of all such are
	// the same.
	Equal
)

// String returns the outcome in words.
func (c Comparison) String() string {
	names := [...]string{CannotTell: "cannot tell", Different: "different", Equal: "equal"}
	if c >= 0 && int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Comparison(%d)", int(c))
}

// Compare reports whether d and other can be digests of the same bytes. Each algorithm
// that both have has a veto: a matching MD5 does not outweigh a SHA-256 that differs.
func (d Digests) Compare(other Digests) Comparison {
	result := CannotTell
	for a := range algorithmCount {
		switch {
		case d.sums[a] == "" || other.sums[a] == "":
		case d.sums[a] != other.sums[a]:
			return Different
		default:
			result = Equal
		}
	}
	return result
}

// Hasher computes several digests of the bytes that are written to it in one pass, and
// counts them. It is for one goroutine.
type Hasher struct {
	hashes [algorithmCount]hash.Hash
	length int64
}

// NewHasher returns a Hasher of the given algorithms. Without any it only counts. To
// check the hashes in a document, pass the algorithms of its Digests. It panics for an
// Algorithm that is none of the constants.
func NewHasher(of ...Algorithm) *Hasher {
	h := new(Hasher)
	for _, a := range of {
		h.hashes[a] = algorithms[a].make()
	}
	return h
}

// Write hashes all of p and never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	for _, x := range h.hashes {
		if x != nil {
			_, _ = x.Write(p) // a hash.Hash never fails
		}
	}
	h.length += int64(len(p))
	return len(p), nil
}

// Length returns how many bytes were written.
func (h *Hasher) Length() int64 { return h.length }

// Digests returns the digests of the bytes written so far.
func (h *Hasher) Digests() Digests {
	var d Digests
	for a, x := range h.hashes {
		if x != nil {
			d.sums[a] = string(x.Sum(nil))
		}
	}
	return d
}
