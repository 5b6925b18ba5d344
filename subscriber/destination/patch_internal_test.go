package destination

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

// A file goes through the states that come after its own; a change that nothing is known before begins
// anew, and a chain has a bound (LNK-04).
func TestChainOfPatches_LNK04(t *testing.T) {
	hash := func(digit string) string { return "md5:" + strings.Repeat(digit, 32) }
	state := func(digit string, change resourcesync.ChangeType) desired {
		return desired{length: 7, digests: resourcesync.ParseHashes(hash(digit)), change: change, patches: []mirror{{URL: digit}}}
	}
	chain := func(have string, all ...desired) (urls string) {
		for i := range all[1:] {
			all[i+1].after(&all[i])
		}
		for _, x := range all[len(all)-1].from(&file{Length: 7, Hash: hash(have)}) {
			urls += x.Patches[0].URL
		}
		return urls
	}
	c, u, d := resourcesync.Created, resourcesync.Updated, resourcesync.Deleted
	for _, tc := range []struct{ have, got, want string }{
		{"0", chain("0", state("1", u), state("2", u), state("3", u)), "123"},
		{"1", chain("1", state("1", u), state("2", u), state("3", u)), "23"},
		{"2", chain("2", state("2", c), state("1", u), state("2", u), state("3", u)), "3"},
		{"0", chain("0", state("1", u), state("2", d), state("3", u)), "3"},
		{"0", chain("0", state("1", u), state("2", c)), "2"},
		{"1", chain("1", state("1", c), state("2", u)), "2"},
	} {
		if tc.got != tc.want {
			t.Errorf("from %s: %s, want %s", tc.have, tc.got, tc.want)
		}
	}
	long := []desired{state("1", u)}
	for range 2 * chainKept {
		long = append(long, state("2", u))
	}
	if got := chain("0", long...); len(got) != chainKept+1 {
		t.Errorf("%d states", len(got))
	}
}

// LNK-02, LNK-04, DOC-16: mirrors and patches get their percent-encoding by the rule for the address of the resource itself, however
// a list writes them, and have no user and password.
func TestLinksAreEncodedAsAddresses(t *testing.T) {
	for written, want := range map[string]string{
		"/mirror \u00e9|a":                       "http://h/mirror%20%C3%A9%7Ca",
		"http://h/mirror \u00e9|a":               "http://h/mirror%20%C3%A9%7Ca",
		"http://h/mirror%20%c3%a9%7Ea?a b":       "http://h/mirror%20%c3%a9%7Ea?a%20b",
		"mirror 100%":                            "http://h/data/mirror%20100%25",
		"http://me:secret@h/mirror \u00e9|a%2Fb": "http://h/mirror%20%C3%A9%7Ca%2Fb",
	} {
		entry := "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:rs=\"http://www.openarchives.org/rs/terms/\"><url><loc>http://h/data/a</loc>"
		for _, rel := range []string{"duplicate", "alternate", patchRel} {
			entry += fmt.Sprintf("<rs:ln rel=%q href=\"%s\"/>", rel, written)
		}
		for e, err := range resourcesync.NewReader(strings.NewReader(entry+"</url></urlset>"), resourcesync.ReadOptions{}).Entries() {
			w := desiredFrom("", &e)
			links := slices.Concat(w.mirrors, w.patches)
			if err != nil || len(links) != 3 || slices.ContainsFunc(links, func(m mirror) bool { return m.URL != want }) {
				t.Errorf("%s: %v %+v, want %s", written, err, links, want)
			}
		}
	}
}
