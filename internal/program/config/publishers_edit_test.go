package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rshub/rshub/internal/base/yamlfile"

	"github.com/google/go-cmp/cmp"
)

var (
	sumA = sha256.Sum256([]byte("a"))
	sumB = sha256.Sum256([]byte("b"))
)

const everything = "https://example.org/*"

func readAll(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A file that is made has a head that says what it is, is its owner's alone, and
// reads back as what was put in.
func TestTokenFileIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "publishers.yaml")
	if err := AddToken(path, "library", []string{everything}, nil, sumA); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`# Who may publish with a credential, and to which topics. `+"`rshub token`"+` changes it,
# and a running hub reads it again when it changes.
publishers:
  - name: library
    topics:
      - https://example.org/*
    token_sha256:
      - %x
`, sumA)
	if got := readAll(t, path); strings.ReplaceAll(got, "\n\n", "\n") != want {
		t.Errorf("it says:\n%s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	list, err := ReadPublishers(path)
	if d := cmp.Diff([]Publisher{{Name: "library", Topics: []string{everything}, TokenSHA256: [][32]byte{sumA}}}, list); d != "" || err != nil {
		t.Error(d, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// Comments and the order of what an operator wrote stay, whatever is changed.
func TestTokenKeepsWhatIsWritten(t *testing.T) {
	text := fmt.Sprintf(`# ours
publishers:
  # the library's
  - token_sha256: %x # spring
    name: library
    topics: ["https://example.org/*"] # all
  - name: "123"
    topics: [https://archive.example/*]
    hmac_secret_file: secret # of theirs
# the end
`, sumA)
	dir := t.TempDir()
	path := filepath.Join(dir, "publishers.yaml")
	for name, content := range map[string]string{"publishers.yaml": text, "secret": "shh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := AddToken(path, "library", nil, nil, sumB); err != nil {
		t.Fatal(err)
	}
	if err := AddToken(path, "123", []string{"https://archive.example/*"}, nil, sha256.Sum256([]byte("c"))); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, path)
	for _, part := range []string{"# ours", "# the library's", "# all", "# of theirs", "# the end", `name: "123"`, fmt.Sprintf("%x", sumA), fmt.Sprintf("%x", sumB)} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is gone:\n%s", part, got)
		}
	}
	if strings.Index(got, "token_sha256") > strings.Index(got, "name: library") {
		t.Errorf("the keys have another order:\n%s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // others may not read it from the next change on
		t.Fatal(err)
	}
	revoked, err := RevokeToken(path, "library", fmt.Sprintf("%x", sumA)[:8])
	if err != nil || revoked != sumA {
		t.Errorf("%x, %v", revoked, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if removed, err := RemovePublisher(path, "123"); err != nil || removed.Secret != "shh" {
		t.Errorf("%+v, %v", removed, err)
	}
	list, err := ReadPublishers(path)
	if d := cmp.Diff([]Publisher{{Name: "library", Topics: []string{everything}, TokenSHA256: [][32]byte{sumB}}}, list); d != "" || err != nil {
		t.Error(d, err)
	}
}

// After a refused change, the file is the same to the byte.
func TestTokenChangesThatAreRefused(t *testing.T) {
	two := fmt.Sprintf("publishers:\n- name: a\n  topics: '*'\n  token_sha256: [%x, %x]\n", sumA, sumB)
	one := fmt.Sprintf("publishers:\n- name: a\n  topics: '*'\n  token_sha256: [%x]\n", sumA)
	shared := fmt.Sprintf("publishers:\n- name: a\n  topics: &t ['*']\n  token_sha256: &s [%x]\n- name: b\n  topics: *t\n  hmac_secret_file: publishers.yaml\n", sumA)
	add := func(name string, topics ...string) func(string) error {
		return func(path string) error { return AddToken(path, name, topics, nil, sumB) }
	}
	revoke := func(name, prefix string) func(string) error {
		return func(path string) error { _, err := RevokeToken(path, name, prefix); return err }
	}
	for _, tc := range []struct {
		why, text string
		do        func(path string) error
		want      error
		says      string
	}{
		{"new without topics", one, add("b"), ErrNoPublisher, "topics"},
		{"other topics", one, add("a", everything), ErrRefusedChange, "leave --topic out"},
		{"the same token", two, add("a"), ErrRefusedChange, "by hand"},
		{"no such publisher", one, revoke("b", "0"), ErrNoPublisher, `"b"`},
		{"no such token", two, revoke("a", "zz"), ErrNoToken, "zz"},
		{"the only one", one, revoke("a", ""), ErrRefusedChange, "only token"},
		{"which one", two, revoke("a", ""), ErrRefusedChange, "more than one"},
		{"a publisher that is not there", one, func(path string) error { _, err := RemovePublisher(path, "b"); return err }, ErrNoPublisher, ""},
		{"a mistake in the file", "publishers:\n- name: a\n", add("b", "*"), nil, ":2: publisher \"a\" has neither topics nor reads"},
		{"no YAML", "publishers: [", add("b", "*"), nil, "not YAML"},
		{"anchors", strings.Replace(shared, "  hmac_secret_file: publishers.yaml\n", "  token_sha256: *s\n", 1), add("b"), nil, "twice"},
	} {
		path := write(t, "publishers.yaml", tc.text)
		err := tc.do(path)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.why, err)
		}
		if got := readAll(t, path); got != tc.text {
			t.Errorf("%s: the file is now\n%s", tc.why, got)
		}
	}
	if _, err := RemovePublisher(filepath.Join(t.TempDir(), "no", "file"), "a"); !errors.Is(err, ErrNoPublishersFile) && !errors.Is(err, ErrNoPublisher) {
		t.Error(err)
	}
}

// A file that cannot be written is explained: a folder in which nobody makes files, and a
// read-only mount.
func TestTokenFileThatIsNotWritable(t *testing.T) {
	for _, tc := range []struct {
		err  error
		says string
	}{
		{unwritable("p", &fs.PathError{Op: "open", Path: "p.new", Err: syscall.EROFS}), "p is mounted read-only"},
		{unwritable("p", &fs.PathError{Op: "open", Path: "p.new", Err: syscall.EACCES}), "this user may not change p"},
		{AddToken("/sys/publishers.yaml", "a", []string{"*"}, nil, sumA), " /sys/publishers.yaml"},
	} {
		if !errors.Is(tc.err, ErrRefusedChange) || !strings.Contains(tc.err.Error(), tc.says) {
			t.Errorf("not %q: %v", tc.says, tc.err)
		}
	}
}

// Empty files, with and without comments, are filled.
func TestTokenInEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "# mine\n", "publishers:\n", "publishers: []\n", "# mine\npublishers: # none yet\n", "---\n# mine\n", "\ufeff# mine\n"} {
		path := write(t, "publishers.yaml", text)
		if err := AddToken(path, "a", []string{"*"}, nil, sumA); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := readAll(t, path); strings.Contains(text, "mine") != strings.Contains(got, "# mine") || strings.Contains(got, "\ufeff") {
			t.Errorf("%q became\n%s", text, got)
		}
	}
}

// A file in UTF-16, which YAML may be too, stays as it is.
func TestTokenFileInUTF16(t *testing.T) {
	for _, text := range []string{"\xfe\xff", "\xff\xfe#\x00m\x00\n\x00"} {
		path := write(t, "publishers.yaml", text)
		if err := AddToken(path, "a", []string{"*"}, nil, sumA); !errors.Is(err, ErrRefusedChange) || readAll(t, path) != text {
			t.Errorf("%q: %v, and the file has %q", text, err, readAll(t, path))
		}
	}
}

// What a hub would not read is not written.
func TestTokenFileStaysReadable(t *testing.T) {
	text := "publishers: []\n#" + strings.Repeat("x", yamlfile.MaxSize-100) + "\n"
	path := write(t, "publishers.yaml", text)
	if err := AddToken(path, "a", []string{"*"}, nil, sumA); !errors.Is(err, ErrRefusedChange) || readAll(t, path) != text {
		t.Error(err)
	}
}

// A file behind a link is changed where it is.
func TestTokenFollowsLinks(t *testing.T) {
	path := write(t, "publishers.yaml", "publishers: []\n")
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := AddToken(link, "a", []string{"*"}, nil, sumA); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if !strings.Contains(readAll(t, path), "name: a") {
		t.Error("the file it leads to did not change")
	}
}

// Two at once: none of the changes is lost.
func TestTokensAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "publishers.yaml")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := AddToken(path, fmt.Sprint("p", i), []string{"*"}, nil, sha256.Sum256([]byte{byte(i)})); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := ReadPublishers(path); err != nil || len(list) != 20 {
		t.Errorf("%d publishers, %v", len(list), err)
	}
}

// Whatever a file says, a change either leaves it or does exactly what it should.
func FuzzAddToken(f *testing.F) {
	hash := fmt.Sprintf("%x", sumA)
	for _, s := range []string{
		"", "publishers:\n", "publishers:\n- name: a\n  topics: '*'\n  token_sha256: " + hash + "\n",
		"{publishers: [{name: a, topics: ['*'], token_sha256: [" + hash + "]}]}",
		"publishers: &p\n- name: x\n  topics: &t '*'\n  token_sha256: [&h " + hash + "]\n",
		"# c\n\n---\npublishers: !!seq []\n", "publishers: ~\n...\n",
	} {
		f.Add(s, "a", "https://example.org/*")
	}
	f.Fuzz(func(t *testing.T, text, name, topic string) {
		if strings.Contains(text, "hmac") {
			return // it would read files
		}
		const path = "publishers.yaml"
		added, err := edited(path, []byte(text), addToken(path, name, []string{topic}, nil, sumB))
		if err != nil {
			return // the file stays as it is
		}
		before, err := parsePublishers(path, []byte(text))
		if err != nil {
			t.Fatalf("a file with mistakes was changed: %v", err)
		}
		after, err := parsePublishers(path, added)
		if err != nil {
			t.Fatal(err)
		}
		tokens := func(list []Publisher) (n int) {
			for _, p := range list {
				n += len(p.TokenSHA256)
			}
			return n
		}
		if tokens(after) != tokens(before)+1 || len(after) < len(before) {
			t.Errorf("%d tokens of %d publishers became %d of %d", tokens(before), len(before), tokens(after), len(after))
		}
	})
}
