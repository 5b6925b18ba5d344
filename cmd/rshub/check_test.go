package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
)

// `rshub check` reads the whole folder of a hub that is stopped: it names what is
// damaged, and changes nothing.
func TestCheck(t *testing.T) {
	const topic = "https://source.example/changes/"
	dir := filepath.Join(t.TempDir(), "data")
	check := func(name string, want int, says ...string) {
		t.Helper()
		code, stdout, stderr := try(t, "", "check", "--data-dir", dir)
		for _, text := range says {
			if !strings.Contains(stdout+stderr, text) {
				t.Errorf("%s: it does not say %q", name, text)
			}
		}
		if code != want || t.Failed() {
			t.Fatalf("%s: exit code %d, want %d, it said %q and %q", name, code, want, stdout, stderr)
		}
	}
	check("no store", cli.ExitNotFound, "there is no store in "+dir)
	s, err := embedstore.Open(dir, embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	var large journal.Entry
	head := journal.Version("")
	for _, size := range []int{10, 5000, 100_000} {
		body := bytes.Repeat([]byte("body."), size/5)
		large, err = s.Append(t.Context(), time.Now(), topic, journal.Entry{Kind: journal.KindContent, Body: body, SHA256: sha256.Sum256(body)}, head)
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.Head(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		head = h.Version
	}
	check("a hub that runs", cli.ExitFailure, "in use")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check("a good one", cli.ExitOK, "3 notifications of 105010 bytes")

	database, body := filepath.Join(dir, "store.db"), filepath.Join(dir, "bodies", large.ID.String())
	change := func(name string, with func(b []byte) []byte) (undo func()) {
		t.Helper()
		was, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, with(bytes.Clone(was)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() { _ = os.WriteFile(name, was, 0o600) }
	}
	undo := change(database, func(b []byte) []byte {
		b[bytes.LastIndex(b, []byte("body.body."))] ^= 1
		return b
	})
	check("a damaged value", cli.ExitFailure, "damaged: the record ", " of entries: its checksum is wrong", "1 thing is damaged")
	undo()
	undo = change(body, func(b []byte) []byte { return append(b[:100], b[99:]...) })
	check("a damaged body", cli.ExitFailure, "damaged: the journal of "+topic, "entry 3", "100001 bytes", "1 thing is")
	if code, _, stderr := try(t, "", "export", "--data-dir", dir, "--plain-secrets", "--notifications"); code != cli.ExitPartial || !strings.Contains(stderr, "everything except 1 notification, topic or subscription ") {
		t.Errorf("an export of a damaged body: exit code %d, and it said %q", code, stderr)
	}
	undo()
	if err := os.Rename(body, body+".away"); err != nil {
		t.Fatal(err)
	}
	check("a missing body", cli.ExitFailure, "its body is missing")
	if err := os.Rename(body+".away", body); err != nil {
		t.Fatal(err)
	}
	undo = change(database, func(b []byte) []byte { return b[:len(b)/4*3] })
	check("a file that is cut off", cli.ExitFailure, database, "seems damaged", "the file is cut off", "put a backup of the folder in its place")
	undo()
	check("what was not changed by any of this", cli.ExitOK, "3 notifications of 105010 bytes")
}

// `rshub check` reads the folder even if the settings name a Redis: that is another store.
func TestCheckReadsTheFolderBesideRedis(t *testing.T) {
	dir := t.TempDir()
	check := func(want int, says string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		environ := []string{"HOME=" + t.TempDir(), "RSHUB_REDIS_URL=redis://127.0.0.1:1"}
		code := run([]string{"check", "--data-dir", dir}, environ, strings.NewReader(""), &stdout, &stderr)
		if said := stdout.String() + stderr.String(); code != want || !strings.Contains(said, says) {
			t.Fatalf("exit code %d, want %d, it said %q and not %q", code, want, said, says)
		}
	}
	check(cli.ExitNotFound, "there is no store in "+dir)
	s, err := embedstore.Open(dir, embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(cli.ExitOK, "0 notifications of 0 bytes")
}
