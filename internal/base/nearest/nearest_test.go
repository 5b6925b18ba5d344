package nearest

import "testing"

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"activ": "active", "ACTIVE": "active", "fialing": "failing", "end": "ended", "": "", "xyzzy": "",
	} {
		if got := Of(name, []string{"active", "pending", "failing", "ended"}); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	settings := []string{"max-body", "lease-min", "lease-max", "continuity", "retention-age", "retention-bytes"}
	for name, want := range map[string]string{
		"max_body": "max-body", "MAX-BODY": "max-body", "maxbody": "max-body", "lease-mi": "lease-min", "lease-m": "lease-max",
		"continuty": "continuity", "retention-size": "retention-age",
	} {
		if got := Of(name, settings); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	urls := []string{"https://example.org/changes/", "https://example.net/changes/", "https://example.org/other/"}
	for name, want := range map[string]string{
		"https://example.org/changes":  urls[0],
		"https://example.nte/changes/": urls[1],
		"https://example.org/":         urls[0], // its beginning
		"gopher://nowhere/":            "",
	} {
		if got := Of(name, urls); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// The plain form of the distance, to hold the bounded one against.
func plainDistance(a, b string) int {
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

func FuzzEditDistance(f *testing.F) {
	f.Add("kitten", "sitting", 3)
	f.Add("kitten", "sitting", 2)
	f.Add("", "abc", 1)
	f.Add("aXbXc", "abc", 0)
	f.Add("abc", "aXbXc", 2)
	f.Add("abcdef", "fabcde", 2)
	f.Fuzz(func(t *testing.T, a, b string, most int) {
		if len(a) > 100 || len(b) > 100 || most < 0 {
			return
		}
		most %= 50
		if got, want := editDistance(a, b, most), min(plainDistance(a, b), most+1); got != want {
			t.Errorf("%q and %q, at most %d: %d, want %d", a, b, most, got, want)
		}
	})
}
