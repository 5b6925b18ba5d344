package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
)

// The goroutine that starts the servers of package redistest stays.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/rshub/rshub/test/redistest.init.func2.1"))
}

func newApp(t *testing.T, args ...string) *App {
	t.Helper()
	cfg, origins, err := config.Load(append([]string{
		"--dev", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data-dir=" + filepath.Join(t.TempDir(), "data"),
	}, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, nil, "test")
	if err != nil {
		t.Fatal(err)
	}
	a.ShowSettings(origins)
	return a
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fetch(t, req)
}

// fetch sends a request, and returns the status and the body of the answer.
func fetch(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	req.Close = true // nothing is left open for the next test
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestLife(t *testing.T) {
	a := newApp(t)
	// The hub outlives the context that it was started with.
	starting, cancel := context.WithCancel(t.Context())
	if err := a.Start(starting); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, port, _ := net.SplitHostPort(a.Addr())
	if want := "http://localhost:" + port + "/"; a.HubURL() != want || port == "0" {
		t.Errorf("the hub URI is %s, want %s", a.HubURL(), want)
	}
	if code, body := get(t, "http://"+a.Addr()+"/"); code != http.StatusOK || !strings.Contains(body, a.HubURL()) {
		t.Errorf("the hub URI answers %d %s", code, body)
	}
	for {
		code, body := get(t, "http://"+a.AdminAddr()+"/readyz?verbose")
		if code == http.StatusOK {
			if body != "[+] starting: the start is over\n[+] store: it answers\n[+] high water: it is not reached\n[+] draining: the hub was not asked to end\nok\n" {
				t.Errorf("ready: %s", body)
			}
			break
		}
		if !strings.Contains(body, "[-] starting: ") {
			t.Fatalf("ready: %d %s", code, body)
		}
	}
	code, body := get(t, "http://"+a.AdminAddr()+"/api/v1/info")
	var info struct {
		Version   string `json:"version"`
		HubURL    string `json:"hub_url"`
		Addresses struct{ Public, Admin string }
		Nodes     []struct{ Shards int }
	}
	if err := json.Unmarshal([]byte(body), &info); err != nil || code != http.StatusOK {
		t.Fatalf("info: %d %s", code, body)
	}
	if info.Version != "test" || info.HubURL != a.HubURL() || info.Addresses.Public != a.Addr() || info.Addresses.Admin != a.AdminAddr() ||
		len(info.Nodes) != 1 || info.Nodes[0].Shards != journal.Partitions {
		t.Errorf("info: %s", body)
	}
	for range 2 {
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", a.Addr()); err == nil {
		t.Error("something still listens after Stop")
	}
	select {
	case err := <-a.Failed():
		t.Errorf("stopping counts as a failure: %v", err)
	default:
	}
}

// A start that fails says what to change, and leaves nothing running.
func TestStartFails(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	running := newApp(t)
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := running.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for what, arg := range map[string]string{
		"--listen":          "--listen=" + taken.Addr().String(),
		"--admin-listen":    "--admin-listen=" + taken.Addr().String(),
		running.cfg.DataDir: "--data-dir=" + running.cfg.DataDir,
	} {
		a := newApp(t, arg)
		if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, which does not name %s", arg, err, what)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Errorf("%s: stopping what never ran: %v", arg, err)
		}
	}
}

// Stages are stopped last first, and the parts of one together.
func TestStopsLastFirst(t *testing.T) {
	var s stopper
	var order []string
	failed := make(chan error, 1)
	for _, name := range []string{"first", "second"} {
		s.stage(0)
		s.add(name, func(context.Context) error { order = append(order, name); return errors.New("no") })
	}
	s.stage(0)
	both := make(chan struct{})
	s.add("beside", func(context.Context) error { both <- struct{}{}; return nil })
	s.background(t.Context(), "part", func(ctx context.Context) error {
		<-ctx.Done()
		<-both
		order = append(order, "part")
		return ctx.Err()
	}, failed)
	err := s.stop(t.Context(), zap.NewNop())
	if !slices.Equal(order, []string{"part", "second", "first"}) {
		t.Errorf("stopped in the order %v", order)
	}
	if err == nil || !strings.Contains(err.Error(), "stopping the second") || !strings.Contains(err.Error(), "stopping the first") {
		t.Errorf("the errors of the steps: %v", err)
	}
}

// All parts share one deadline. Parts that hang leave those after them the time that
// is reserved for these, and are no error.
func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stopper
		release := make(chan struct{})
		defer close(release)
		core, logged := observer.New(zap.WarnLevel)
		s.stage(time.Second)
		for range 10 {
			s.add("part that has ended by then", func(context.Context) error { return nil })
		}
		s.add("store", func(context.Context) error { <-release; return nil })
		s.stage(3 * time.Second)
		s.add("prompt part", func(ctx context.Context) error { return ctx.Err() })
		s.add("part that uses all its time", func(ctx context.Context) error { <-ctx.Done(); return nil })
		s.stage(0)
		s.background(t.Context(), "deaf part", func(context.Context) error { <-release; return nil }, make(chan error, 1))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.stop(ctx, zap.New(core)); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("stopping took %v", took)
		}
		var after []time.Duration
		var left []any
		for _, line := range logged.FilterField(zap.String("event", "stop_cut_short")).All() {
			after = append(after, line.Time.Sub(began))
			parts, _ := line.ContextMap()["parts"].([]any)
			left = append(left, parts...)
		}
		if !slices.Equal(after, []time.Duration{6 * time.Second, 10 * time.Second}) || !slices.Equal(left, []any{"deaf part", "store"}) {
			t.Errorf("left behind %v after %v", left, after)
		}
	})
}

// A part that hung and was left behind logs nothing after the hub has stopped, even if it continues.
func TestNothingIsLoggedAfterStop(t *testing.T) {
	core, logged := observer.New(zap.DebugLevel)
	a, err := New(newApp(t).cfg, zap.New(core), "test")
	if err != nil {
		t.Fatal(err)
	}
	release, ended := make(chan struct{}), make(chan struct{})
	deaf := a.log.Named("part").With(zap.String("part", "deaf"))
	a.stops.add("deaf part", func(context.Context) error {
		defer close(ended)
		<-release
		deaf.Warn("it is tried again", zap.String("event", "late"))
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := a.Stop(ctx); err != nil {
		t.Error(err)
	}
	close(release)
	<-ended
	lines := logged.All()
	if last := lines[len(lines)-1]; last.ContextMap()["event"] != "stop_cut_short" {
		t.Errorf("the last line is %q: %v", last.Message, last.ContextMap())
	}
}

func TestPartThatEndsIsAFailure(t *testing.T) {
	var s stopper
	failed := make(chan error, 1)
	s.background(t.Context(), "part", func(context.Context) error { return errors.New("broken") }, failed)
	if err := <-failed; !strings.Contains(err.Error(), "part") || !strings.Contains(err.Error(), "broken") {
		t.Error(err)
	}
	if err := s.stop(t.Context(), zap.NewNop()); err == nil {
		t.Error("its error is lost when it is stopped")
	}
}

// Retention looks at every topic, by age and by fair share, and at no cursor.
func TestRetention(t *testing.T) {
	store, err := embedstore.Open(t.TempDir(), embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	add := func(topic string, age time.Duration, size int) {
		t.Helper()
		head, err := store.Head(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		e := journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", Body: make([]byte, size)}
		if _, err := store.Append(t.Context(), now.Add(-age), topic, e, head.Version); err != nil {
			t.Fatal(err)
		}
	}
	const hog, small, old = "https://example.org/hog", "https://example.org/small", "https://example.org/old"
	for range 10 {
		add(hog, time.Hour, 100)
	}
	add(small, time.Hour, 100)
	add(old, 73*time.Hour, 100)
	add(old, time.Hour, 100)
	r := retention{store: store, log: zap.NewNop(), rule: journal.Retention{Age: 72 * time.Hour, PerTopic: 1000, Total: 600}}
	// Twice: what is left after the first pass, which trims by age, does not exceed the total any more.
	for range 2 {
		if err := r.trim(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	for topic, want := range map[string]int64{hog: 300, small: 100, old: 100} {
		head, err := store.Head(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if head.Bytes != want {
			t.Errorf("%s keeps %d bytes, want %d", topic, head.Bytes, want)
		}
	}
}
