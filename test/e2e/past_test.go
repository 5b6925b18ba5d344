package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// A process that copies a past state is killed at random, after a few packages of its dump, and run
// again with the same time: in the end the copy has exactly that state, though the Source has another one by
// then. Another time is refused, and so are those that the Source does not have.
func TestPastStateKilled(t *testing.T) {
	t.Parallel()
	folder, was, out, state, dir := t.TempDir(), filepath.Join(t.TempDir(), "was"), t.TempDir(), t.TempDir(), t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var left atomic.Int64 // packages until the kill
	reached := make(chan struct{}, 1)
	files := http.FileServer(http.Dir(out))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".zip") && left.Add(-1) == 0 {
			reached <- struct{}{}
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	write := func(i int, what string) {
		name := filepath.Join(folder, fmt.Sprint(i%7), fmt.Sprint(i))
		must(t, os.MkdirAll(filepath.Dir(name), 0o750))
		must(t, os.WriteFile(name, []byte(strings.Repeat(fmt.Sprintln(what, i), 1+rnd.IntN(500))), 0o600))
	}
	build := func() time.Time {
		time.Sleep(200 * time.Millisecond) // files settle
		if code, out := run(t, command("rspub"), "build", "--dir", folder, "--out", out, "--public-url", server.URL+"/", "--state-dir", state,
			"--settle", "50ms", "--package-bytes", "20KiB", "--archive-every", "1ms"); code != 0 {
			t.Fatalf("rspub build ended with %d: %s", code, out)
		}
		time.Sleep(10 * time.Millisecond)
		return time.Now().Truncate(time.Millisecond)
	}
	for i := range 200 {
		write(i, "first")
	}
	at := build()
	must(t, os.CopyFS(was, os.DirFS(folder)))
	for i := range 60 {
		write(3*i, "second")
		must(t, os.RemoveAll(filepath.Join(folder, fmt.Sprint((3*i+1)%7), fmt.Sprint(3*i+1))))
	}
	build()

	sync := func(at string, more ...string) []string {
		return append([]string{command("rssub"), "sync", server.URL + "/", "--dir", dir, "--map", server.URL + "/data/=.", local, "--as-of", at}, more...)
	}
	asOf, kills := resourcesync.FormatDatetime(at), 0
	for range 20 {
		left.Store(int64(1 + rnd.IntN(4)))
		ctx, cancel := context.WithCancel(t.Context())
		args := sync(asOf, "--parallel", "1")
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		must(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-reached:
			time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
			kills++
			cancel() // SIGKILL
			if err := <-ended; err == nil {
				t.Log("it ended before it was killed")
			}
		case err := <-ended:
			must(t, err)
		}
		cancel()
	}
	if kills < 3 {
		t.Errorf("it was killed %d times", kills)
	}
	if code, out := run(t, sync(asOf)...); code != 0 || !strings.Contains(out, "the state as of "+asOf) {
		t.Fatalf("after %d kills it ended with %d: %s", kills, code, out)
	}
	must(t, sameTrees(was, dir))
	if code, out := run(t, command("rssub"), "audit", server.URL+"/", "--dir", dir, "--map", server.URL+"/data/=.", local); code != 0 {
		t.Errorf("the audit ended with %d: %s", code, out)
	}
	elsewhere := []string{"--dir", t.TempDir()}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{sync(resourcesync.FormatDatetime(time.Now())), 2, "a copy has one state only"},
		{sync(resourcesync.FormatDatetime(at.Add(-time.Millisecond))), 2, "a copy has one state only"},
		{sync(asOf)[:len(sync(asOf))-2], 2, "the current state of the Source was asked for"},
		{sync("2020-02-29", elsewhere...), 3, "2020-02-29T00:00:00Z is before both"},
		{sync("0001-01-01T00:00:00Z", elsewhere...), 3, "the Source does not have this state"},
	} {
		if code, out := run(t, c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v ended with %d: %s", c.args, code, out)
		}
	}
	must(t, sameTrees(was, dir))
}
