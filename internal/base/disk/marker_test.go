package disk

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMark(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if Marked(root.Lstat, "state") || Marked(root.Lstat, "none") || Marked(root.Lstat, "") {
		t.Error("a folder is marked that nobody marked")
	}
	if err := Mark(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	if !Marked(root.Lstat, "state") || Marked(root.Lstat, "") {
		t.Error("the folder is not marked, or another is")
	}
	name := filepath.Join(dir, "state", Marker)
	if err := os.WriteFile(name, []byte("an id"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Mark(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(name); err != nil || string(raw) != "an id" {
		t.Errorf("a marker that was there is %q, %v", raw, err)
	}
	if err := Mark(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder is marked that is not there")
	}
}

func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "above", "state")
	for range 2 {
		if err := Make(dir); err != nil || !Marked(os.Lstat, dir) {
			t.Fatalf("the folder was not made: %v", err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	file := filepath.Join(dir, Marker)
	if err := Make(file); err == nil {
		t.Error("a folder was made in the place of a file")
	}
}
