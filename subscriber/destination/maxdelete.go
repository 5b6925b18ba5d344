package destination

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rshub/rshub/internal/base/quantity"
)

// Share is a number of files: N, or Part of the copy where that is set, 1 being all
// of it whatever that is. The zero Share is a tenth of the copy, and ten files at least.
type Share struct {
	N    int
	Part float64
	set  bool
}

// ParseShare reads a number, such as "100", or a part, such as "25%" or "0.25".
func ParseShare(s string) (Share, error) {
	if strings.ContainsAny(s, "%.") {
		f, err := quantity.Share(s)
		return Share{Part: f, set: err == nil}, err
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return Share{N: n, set: true}, nil
	}
	return Share{}, fmt.Errorf("%q is no number of files and no part of the copy; write it like 100 or 25%%", s)
}

// of returns how many files that is of a copy of n.
func (s Share) of(n int) int {
	switch {
	case s.byDefault():
		return max(10, n/10)
	case s.Part >= 1:
		return math.MaxInt
	case s.Part > 0:
		return int(s.Part * float64(n))
	default:
		return s.N
	}
}

// byDefault reports whether nobody said how many files.
func (s Share) byDefault() bool { return !s.set && s.N == 0 && s.Part == 0 }
