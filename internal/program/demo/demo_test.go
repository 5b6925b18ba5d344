package demo

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/subscriber/destination"
)

// What a demo that was killed left behind goes at the next start; what a running one
// has, and what is no demo's, stays.
func TestLeftBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	running, done, err := stateFolder()
	if err != nil {
		t.Fatal(err)
	}
	killed, mine := filepath.Join(os.TempDir(), prefix+"killed"), filepath.Join(os.TempDir(), prefix+"mine")
	for _, name := range []string{filepath.Join(killed, "hub", "hub.db"), filepath.Join(killed, held), filepath.Join(mine, "a.txt")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(elsewhere, held), nil, 0o600), os.Symlink(elsewhere, filepath.Join(os.TempDir(), prefix+"link"))); err != nil {
		t.Fatal(err)
	}
	_, done2, err := stateFolder()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{running: true, mine: true, filepath.Join(elsewhere, held): true, killed: false} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
	done()
	done2()
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")); err != nil || len(left) != 1 || left[0] != mine {
		t.Errorf("%v, %v", left, err)
	}
}

// The folders lie beside each other, links or not, and the copy takes the place of
// nothing that no demo put there.
func TestFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Symlink(".", "here"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		data, copied string
		good         bool
	}{
		{"data", "copy", true},
		{"data", "data-copy", true},
		{"data", "data", false},
		{"data", "./data/copy", false},
		{"data/in", "data", false},
		{"data", "here/data", false},
		{"data", ".", false},
	} {
		if err := apart(c.data, c.copied); (err == nil) != c.good || err != nil && !errors.Is(err, ErrNested) {
			t.Errorf("%s and %s: %v", c.data, c.copied, err)
		}
	}
	if err := errors.Join(fill("data"), claim("copy"), claim("copy"), fill("data")); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile("data/letters/greek.md"); err != nil || string(raw) != examples["letters/greek.md"] {
		t.Errorf("%q, %v", raw, err)
	}
	if err := claim("data"); err == nil || !strings.Contains(err.Error(), "--copy") {
		t.Errorf("a folder with files of somebody: %v", err)
	}
}

// A line says what became of a change, how it came and how long that took.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLines(&out)
		l.source = "http://localhost/data/"
		changed := time.Now()
		time.Sleep(14 * time.Millisecond)
		status := http.StatusServiceUnavailable
		hub := l.watch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		deliver := func(id string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			r.Header.Set("Webhook-Id", id)
			hub.ServeHTTP(httptest.NewRecorder(), r)
		}
		deliver("n1") // it comes again
		time.Sleep(6 * time.Millisecond)
		status = http.StatusOK
		deliver("n1")
		deliver("n2")
		deliver("n2")
		time.Sleep(time.Millisecond)
		e := destination.Event{
			What: destination.Copied, URL: "http://localhost/data/a%20b.txt", Bytes: 12, Change: "created", ChangedAt: changed, NotificationID: "n1",
			Hash: "sha-256:98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4",
		}
		l.event(e)
		e.NotificationID, e.URL, e.Hash = "n2", "http://localhost/data/%0a.txt", ""
		l.event(e)
		e.NotificationID, e.Change, e.What = "", "deleted", destination.Deleted
		l.event(e)
		e.What, e.Err = destination.Failed, errors.New("it is gone")
		l.event(e)
		e.Change, e.What, e.Err = "", destination.Copied, nil // the baseline's
		l.event(e)
		now := time.Now().Format(time.TimeOnly)
		want := now + " created a b.txt 12 B sha-256:98ea6e4f... delivered to 1 subscriber in 20 ms, copied in 21 ms\n" +
			now + ` created "\n.txt" 12 B delivered 2 times, first in 20 ms, copied in 21 ms` + "\n" +
			now + ` deleted "\n.txt" found in the Change List, deleted in 21 ms` + "\n" +
			now + ` deleted "\n.txt" found in the Change List: it is gone; it is tried again` + "\n"
		if out.String() != want {
			t.Errorf("printed\n%swant\n%s", out.String(), want)
		}
	})
}

// A demo that is interrupted while it starts ends as one that runs, and blames nobody.
func TestInterruptedStart(t *testing.T) {
	for _, at := range []string{"", "Destination"} {
		t.Run("at "+at, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			t.Chdir(t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := interrupter{at: at, cancel: cancel}
			if at == "" {
				cancel()
			}
			if err := Run(ctx, Options{Out: &out}); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if said := out.String(); !strings.HasSuffix(said, "ended; demo-data and demo-copy stay\n") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// interrupter cancels when a text is written.
type interrupter struct {
	bytes.Buffer
	at     string
	cancel context.CancelFunc
}

func (i *interrupter) Write(p []byte) (int, error) {
	if i.at != "" && bytes.Contains(p, []byte(i.at+"  keeps")) {
		i.cancel()
	}
	return i.Buffer.Write(p)
}
