package destination

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rshub/rshub/internal/base/quantity"
)

// Share is a number of files: N, or if Part is set, this fraction of the copy; 1 is the whole
// copy. The zero Share is a tenth of the copy, and at least ten files.
type Share struct {
	N    int
	Part float64
	set  bool
}

// ParseShare reads a number, such as "100", or a fraction, such as "25%" or "0.25".
func ParseShare(s string) (Share, error) {
	if strings.ContainsAny(s, "%.") {
		f, err := quantity.Share(s)
		return Share{Part: f, set: err == nil}, err
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return Share{N: n, set: true}, nil
	}
	return Share{}, fmt.Errorf("%q is neither a number of files nor a fraction of the copy; write it like 100 or 25%%", s)
}

// of returns how many files that is in a copy with n files.
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

// byDefault reports whether the number of files was not set.
func (s Share) byDefault() bool { return !s.set && s.N == 0 && s.Part == 0 }
