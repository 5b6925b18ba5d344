package config

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPublishers(t *testing.T) {
	dir := t.TempDir()
	sum := sha256.Sum256([]byte("token"))
	content := fmt.Sprintf(`publishers:
  - name: library
    topics: ["https://example.org/changes/", "https://example.org/more/*"]
    token_sha256: [%x]
  - name: archive
    topics: https://archive.example/*
    hmac_secret_file: archive.secret
`, sum)
	for name, text := range map[string]string{"publishers.yaml": content, "archive.secret": "shh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []Publisher{
		{Name: "library", Topics: []string{"https://example.org/changes/", "https://example.org/more/*"}, TokenSHA256: [][32]byte{sum}},
		{Name: "archive", Topics: []string{"https://archive.example/*"}, Secret: "shh", SecretFile: filepath.Join(dir, "archive.secret")},
	}
	for _, args := range [][]string{{"--data-dir", dir}, {"--publishers-file", filepath.Join(dir, "publishers.yaml")}} {
		c, _ := load(t, args, nil)
		if d := cmp.Diff(want, c.Publishers); d != "" {
			t.Errorf("%q: %s", args, d)
		}
	}
}

func TestMistakesInThePublishersFile(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for content, want := range map[string]string{
		"publisher: []\n":                        ":1: there is no setting \"publisher\"; did you mean publishers?",
		"publishers: {}\n":                       ":1: publishers: it has to be a list",
		"publishers:\n- x\n":                     ":2: write keys and values here",
		"publishers:\n- name: a\n  topic: [x]\n": ":3: there is no setting \"topic\"; did you mean topics?",
		"publishers:\n- topics: ['*']\n  token_sha256: " + hash + "\n":                        ":2: a publisher has no name",
		"publishers:\n- name: a\n  token_sha256: " + hash + "\n":                              ":2: publisher \"a\" has neither topics nor reads",
		"publishers:\n- name: a\n  topics: '*'\n":                                             "neither token_sha256 nor",
		"publishers:\n- name: a\n  topics: 'x'\n":                                             ":3: topics: \"x\" is not a topic pattern",
		"publishers:\n- name: [a, b]\n":                                                       ":2: name: it must be one value",
		"publishers:\n- name: a\n  token_sha256: abc\n":                                       ":3: token_sha256: each token_sha256 is 64",
		"publishers:\n- name: a\n  hmac_secret_file: nowhere\n":                               "nowhere",
		"publishers:\n- {name: a, topics: '*', token_sha256: [" + hash + ", " + hash + "]}\n": "twice",
		"publishers:\n- &p {name: a, topics: '*', token_sha256: [" + hash + "]}\n- {name: a, topics: '*', token_sha256: [" + strings.Repeat("0b", 32) + "]}\n": ":3: there is another publisher \"a\"",
	} {
		file := write(t, "publishers.yaml", content)
		wantError(t, []string{"--publishers-file", file}, nil, file, want)
	}
	load(t, []string{"--publishers-file", write(t, "publishers.yaml", "publishers:\n")}, nil)
}

// A data folder that is a file is the store's to complain about, not the
// publishers'.
func TestDataFolderThatIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load([]string{"--data-dir", file}, nil); err != nil {
		t.Error(err)
	}
}
