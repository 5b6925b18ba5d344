package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fakeBackup is the content of a backup that may break off.
type fakeBackup struct {
	io.Reader
	closed chan struct{}
}

func newFakeBackup(r io.Reader) *fakeBackup { return &fakeBackup{r, make(chan struct{})} }

func (b *fakeBackup) Close() error { close(b.closed); return nil }

// isClosed waits until the content is closed.
func (b *fakeBackup) isClosed(t *testing.T) {
	t.Helper()
	select {
	case <-b.closed:
	case <-time.After(2 * time.Minute):
		t.Error("the file was not closed")
	}
}

// An operator gets the backup whole, or notices that it is not. A reader gets none.
func TestBackup(t *testing.T) {
	text := strings.Repeat("a line\n", 100_000)
	var content *fakeBackup
	var failure error
	asked := 0
	url := start(t, Options{Token: held("t"), ReaderToken: held("r"), Backup: func(context.Context) (*Backup, error) {
		asked++
		content = newFakeBackup(strings.NewReader(text))
		return &Backup{Content: content, Size: int64(len(text))}, failure
	}}) + "/api/v1/backup"
	resp, body := send(t, http.MethodPost, url, "Authorization: Bearer t")
	if resp.status != http.StatusOK || body != text || resp.header.Get("Content-Length") != fmt.Sprint(len(text)) {
		t.Errorf("%d, %d of %d bytes", resp.status, len(body), len(text))
	}
	content.isClosed(t)
	resp, body = send(t, http.MethodPost, url, "Authorization: Bearer r")
	wantProblem(t, resp, body, http.StatusForbidden, "reader")
	resp, body = send(t, http.MethodGet, url, "Authorization: Bearer t")
	wantProblem(t, resp, body, http.StatusMethodNotAllowed, "POST")
	if asked != 1 {
		t.Errorf("%d backups were made", asked)
	}
	for want, err := range map[int]error{
		http.StatusConflict: ErrBackupRuns, http.StatusInsufficientStorage: fmt.Errorf("%w: the disk is full", ErrBackupRoom), http.StatusServiceUnavailable: errors.New("the store is away"),
	} {
		failure = err
		resp, body = send(t, http.MethodPost, url, "Authorization: Bearer t")
		wantProblem(t, resp, body, want, "")
	}
}

// limited notes whether a limit is set for reading.
type limited struct {
	*httptest.ResponseRecorder
	reads bool
}

func (l *limited) SetReadDeadline(at time.Time) error { l.reads = !at.IsZero(); return nil }

// A backup may take as long as it needs. A read deadline would end its context, however long ago
// the request was read. Requests that change something keep theirs.
func TestBackupTakesItsTime(t *testing.T) {
	h := New(Options{Reload: func() []Reloaded { return nil }, Backup: func(ctx context.Context) (*Backup, error) {
		if _, ok := ctx.Deadline(); ok {
			t.Error("its context has a time limit")
		}
		return &Backup{Content: newFakeBackup(strings.NewReader("")), Size: 0}, nil
	}})
	for path, want := range map[string]bool{"/api/v1/backup": false, "/api/v1/reload": true} {
		w := &limited{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, nil))
		if w.Code != http.StatusOK || w.reads != want {
			t.Errorf("%s: %d, a limit for reading: %t", path, w.Code, w.reads)
		}
	}
}

// A file that cannot be read to its end is refused.
func TestBackupBreaksOff(t *testing.T) {
	content := newFakeBackup(io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), errorReader{}))
	url := start(t, Options{Backup: func(context.Context) (*Backup, error) {
		return &Backup{Content: content, Size: 200_000}, nil
	}}) + "/api/v1/backup"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if n, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || n > 100_000 {
		t.Errorf("%d bytes and %v", n, err)
	}
	content.isClosed(t)
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errors.New("the disk cannot be read") }
