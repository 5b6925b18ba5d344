package destination

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func unify(old, diff string) (string, error) {
	var out bytes.Buffer
	err := applyUnified(&out, strings.NewReader(old), strings.NewReader(diff))
	return out.String(), err
}

// What diff -u, git diff and git format-patch write is applied.
func TestUnifiedDiffs_LNK04(t *testing.T) {
	for name, c := range map[string]struct{ old, diff, want string }{
		"change":         {"a\nb\nc\n", "--- a\t2026-01-01\n+++ b\t2026-01-02\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n"},
		"of git":         {"a\nb\n", "From: x\n\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -2 +2,2 @@ func x\n-b\n+B\n+C\n-- \n2.39\n", "a\nB\nC\n"},
		"two hunks":      {"1\n2\n3\n4\n5\n", "@@ -1 +1 @@\n-1\n+one\n@@ -4,2 +4,1 @@\n 4\n-5\n", "one\n2\n3\n4\n"},
		"inserted":       {"a\nb\n", "@@ -1,0 +2 @@\n+x\n", "a\nx\nb\n"},
		"at the start":   {"a\n", "@@ -0,0 +1 @@\n+x\n", "x\na\n"},
		"new file":       {"", "@@ -0,0 +1,2 @@\n+x\n+y\n", "x\ny\n"},
		"emptied":        {"a\nb", "@@ -1,2 +0,0 @@\n-a\n-b\n\\ No newline at end of file\n", ""},
		"end lost":       {"a\nb\n", "@@ -2 +2 @@\n-b\n+b\n\\ No newline at end of file\n", "a\nb"},
		"end won":        {"a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"},
		"space removed":  {"a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "a\n\nB\n"},
		"other line end": {"a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n", "a\r\nB\r\n"},
		"diff cut short": {"a\nb\n", "@@ -2 +2 @@\n-b\n+B", "a\nB"},
	} {
		if got, err := unify(c.old, c.diff); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Of another old file, or of a diff that is wrong, nothing is made silently.
func TestWrongDiffs(t *testing.T) {
	for name, c := range map[string]struct{ old, diff, want string }{
		"another line":  {"a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "line 3 of the diff: the old file is another one"},
		"too short":     {"a\n", "@@ -5 +5 @@\n-b\n+B\n", "line 1 of the diff: the old file is another one"},
		"shifted":       {"0\na\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "another one"},
		"backwards":     {"a\nb\nc\n", "@@ -2 +2 @@\n-b\n+B\n@@ -1 +1 @@\n-a\n+A\n", "line 4 of the diff: the hunk begins before"},
		"no hunk":       {"a\n", "<html>\n", "it has no hunk"},
		"empty":         {"a\n", "", "it has no hunk"},
		"no head":       {"a\n", "@@ -1 @@\n-a\n", "it is not the head of a hunk"},
		"huge":          {"a\n", "@@ -1,9223372036854775807 +1 @@\n-a\n", "it is not the head of a hunk"},
		"signed":        {"a\n", "@@ -+1 +1 @@\n-a\n+b\n", "it is not the head of a hunk"},
		"cut off":       {"a\nb\n", "@@ -1,2 +1,2 @@\n a\n", "the hunk is cut off"},
		"other content": {"a\n", "@@ -1 +1 @@\n*a\n", "begins with '*'"},
		"too many":      {"a\nb\n", "@@ -1,1 +1,2 @@\n-a\n-b\n", "more lines than its head says"},
		"long":          {"a\n", "@@ -1 +1 @@\n-" + strings.Repeat("a", maxDiffLine+1), "more than 1048576 bytes"},
	} {
		if got, err := unify(c.old, c.diff); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// differ returns a diff with a hunk for each change that random numbers make, and the new file.
func differ(r *rand.Rand, old []string) (diff, now string) {
	var d, n strings.Builder
	at := 1
	for i := 0; i < len(old); {
		keep := r.IntN(4)
		for ; keep > 0 && i < len(old); keep-- {
			n.WriteString(old[i])
			i, at = i+1, at+1
		}
		gone, added := min(r.IntN(3), len(old)-i), r.IntN(3)
		if gone+added == 0 {
			continue
		}
		from, to := i+1, at
		if gone == 0 {
			from--
		}
		if added == 0 {
			to--
		}
		fmt.Fprintf(&d, "@@ -%d,%d +%d,%d @@\n", from, gone, to, added)
		for range gone {
			d.WriteString("-" + old[i])
			i++
		}
		for k := range added {
			line := fmt.Sprintf("added %d\n", k)
			d.WriteString("+" + line)
			n.WriteString(line)
			at++
		}
	}
	return d.String(), n.String()
}

// Whatever was changed, the diff makes the new file of the old one.
func TestDiffsOfAnyChange(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var old []string
		for i := range r.IntN(40) {
			old = append(old, fmt.Sprintf("%d %s\n", i, strings.Repeat("x", r.IntN(100))))
		}
		diff, want := differ(r, old)
		if diff == "" {
			continue
		}
		if got, err := unify(strings.Join(old, ""), diff); got != want || err != nil {
			t.Fatalf("seed %d: %v\n%s\nof\n%s\nmade\n%s", seed, err, diff, strings.Join(old, ""), got)
		}
	}
}

func FuzzUnifiedDiff(f *testing.F) {
	f.Add("a\nb\nc\n", "--- a\n+++ b\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")
	f.Add("a", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n")
	f.Fuzz(func(t *testing.T, old, diff string) {
		if got, err := unify(old, diff); err == nil && len(got) > len(old)+len(diff) {
			t.Errorf("%d bytes of %d and %d", len(got), len(old), len(diff))
		}
	})
}
