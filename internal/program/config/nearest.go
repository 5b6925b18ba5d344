package config

import "strings"

// Nearest returns the one of names that name was probably meant to be; empty:
// none is near.
func Nearest(name string, names []string) string {
	best, nearest := max(2, len(name)/3)+1, ""
	for _, n := range names {
		d := distance(name, n)
		if d < best || d == best && n < nearest {
			best, nearest = d, n
		}
	}
	return nearest
}

// didYouMean is the end of a sentence that says name is unknown.
func didYouMean(name string, names []string) string {
	if n := Nearest(name, names); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}

// distance is the Levenshtein distance of two names, capital letters and
// underscores taken as what they stand for.
func distance(a, b string) int {
	plain := strings.NewReplacer("_", "-")
	a, b = plain.Replace(strings.ToLower(a)), plain.Replace(strings.ToLower(b))
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
