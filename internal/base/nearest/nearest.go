package nearest

import "strings"

// slips is how many characters a name may be off and still be taken for the one that was meant: up to
// four in a name, more in an address.
func slips(name string) int { return max(2, min(len(name)/3, 4), len(name)/8) }

// plain writes names alike that differ only in how they are written: MAX_BODY and max-body.
var plain = strings.NewReplacer("_", "-")

// Near returns how far off name is from other, and whether that is near enough: by its characters, or
// because one of the two is the beginning of the other. Capital letters and underscores do not count.
func Near(name, other string) (distance int, ok bool) {
	name, other = plain.Replace(strings.ToLower(name)), plain.Replace(strings.ToLower(other))
	most := slips(name)
	if d := editDistance(name, other, most); d <= most {
		return d, true
	}
	const telling = 6 // characters that are no accident
	if len(name) >= telling && strings.HasPrefix(other, name) || len(other) >= telling && strings.HasPrefix(name, other) {
		return most + 1, true
	}
	return 0, false
}

// Of returns the one of names that name was probably meant to be, of several equally near ones the first
// in the alphabet; empty: none is near.
func Of(name string, names []string) string {
	best, found := 0, ""
	for _, n := range names {
		if d, ok := Near(name, n); ok && (found == "" || d < best || d == best && n < found) {
			best, found = d, n
		}
	}
	return found
}

// DidYouMean is the end of a sentence that says name is unknown; empty: none of names is near.
func DidYouMean(name string, names []string) string {
	if n := Of(name, names); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}

// editDistance is the Levenshtein distance of two strings in bytes, or most+1
// where it is more than most. The work is bounded by most times their length.
func editDistance(a, b string, most int) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		// Only what is at most as far from the diagonal can be near.
		from, to := max(i-most, 0), min(i+most+1, len(b))
		diagonal := row[from]
		row[from] = most + 1
		if from == 0 {
			row[0] = i + 1
		}
		least := row[from]
		for j := from; j < to; j++ {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
			least = min(least, row[j+1])
		}
		if least > most {
			return most + 1
		}
	}
	return min(row[len(b)], most+1)
}
