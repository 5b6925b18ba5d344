package flips

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var flips = flag.Int("flips", 30, "how many bytes of each file are damaged, one at a time; 200 in each of the five kinds take minutes")

// Kind is a kind of file.
type Kind struct {
	// File is its name within the folder, and Advice what its owner is told to do.
	File, Advice string
	// Make fills a folder, and closes what it opened.
	Make func(t *testing.T, dir string)
	// Read returns everything in a folder, by name. The error says what was refused or reported as
	// damaged. Then the result may lack things.
	Read func(t *testing.T, dir string) (map[string]string, error)
}

// Run damages the file of a folder, a byte at a time. After each, everything that is read must be
// what was written, and everything that is missing must be reported. Then Run cuts the file off at
// each eighth. Opening it must fail with the name of the file and the advice.
func Run(t *testing.T, k Kind) {
	t.Helper()
	whole := t.TempDir()
	k.Make(t, whole)
	pristine, err := os.ReadFile(filepath.Join(whole, k.File)) //nolint:gosec // of a test
	if err != nil {
		t.Fatal(err)
	}
	damage := func(content []byte) (map[string]string, error) {
		dir := t.TempDir()
		name := filepath.Join(dir, k.File)
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil { //nolint:gosec // of a test
			t.Fatal(err)
		}
		return k.Read(t, dir)
	}
	want, err := damage(pristine)
	if err != nil || len(want) == 0 {
		t.Fatalf("%d things are read of what is whole: %v", len(want), err)
	}
	reported := 0
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same bytes each time
	for n := range *flips {
		content, at := append([]byte(nil), pristine...), rng.IntN(len(pristine))
		if n%3 == 0 { // of the pages that have the most to break
			at %= 1 << 14
		}
		content[at] ^= byte(1 + rng.IntN(255)) //nolint:gosec // below 256
		got, err := damage(content)
		if err != nil {
			reported++
		}
		for name, v := range got {
			if want[name] != v {
				t.Errorf("%s is read as %.200q, and was written as %.200q", name, v, want[name])
			}
		}
		if err == nil && len(got) != len(want) {
			t.Errorf("%d things are read, %d were written, and nothing is reported", len(got), len(want))
		}
		if t.Failed() {
			t.Fatalf("byte %d of %d was changed from %x to %x", at, len(pristine), pristine[at], content[at])
		}
	}
	t.Logf("of %d damaged files %d were reported", *flips, reported)
	for i := range 8 {
		_, err := damage(pristine[:max(len(pristine)*i/8, 1)])
		if err == nil || !strings.Contains(err.Error(), k.File) || !strings.Contains(err.Error(), "seems damaged") || !strings.Contains(err.Error(), k.Advice) {
			t.Errorf("cut to %d eighths: %v", i, err)
		}
	}
}
