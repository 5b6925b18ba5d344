package hub_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
)

// forger has a topic beside the topic of another Source, on one host. It tries to make the hub
// accept its bytes for the other topic.
type forger struct {
	*httptest.Server
	mu    sync.Mutex
	hub   string
	asked map[string]int                                      // by path
	serve map[string]func(http.ResponseWriter, *http.Request) // by path
}

func newForger(t *testing.T) *forger {
	f := &forger{asked: map[string]int{}, serve: map[string]func(http.ResponseWriter, *http.Request){}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked[r.Method+" "+r.URL.EscapedPath()]++
		if serve := f.serve[r.URL.EscapedPath()]; serve != nil {
			serve(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// says serves a body in the name of a topic.
func (f *forger) says(path, topic, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serve[path] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, f.URL+topic, f.hub))
		_, _ = io.WriteString(w, body)
	}
}

func (f *forger) requests(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked["GET "+path] + f.asked["HEAD "+path]
}

// HUB-53, `content`: nothing but the bytes that the topic's owner serves now, at
// its URL or in a copy below it, gets in; and what was compared is what is stored.
func TestContentCannotBeForged_HUB53(t *testing.T) {
	hubURL, store := realHub(t)
	f := newForger(t)
	f.hub = hubURL
	victim, genuine, forged := f.URL+"/victim/", interval(0, 1, "genuine"), interval(0, 1, "forged")
	f.says("/victim/", "/victim/", genuine)
	f.says("/victim/copy", "/forger/", forged)               // a copy, in the name of another topic
	f.says("/forger/", "/forger/", forged)                   // the forger's own topic
	f.says("/forger/copy", "/victim/", forged)               // in the victim's name, and not below it
	f.says("/victim/%2e%2e/forger/copy", "/victim/", forged) // nor is this
	f.mu.Lock()
	f.serve["/victim/moved"] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/forger/copy", http.StatusFound) }
	f.mu.Unlock()

	for _, location := range []string{
		"", f.URL + "/victim/copy", f.URL + "/victim/moved", f.URL + "/forger/copy", f.URL + "/victim/../forger/copy",
		f.URL + "/victim/%2e%2e/forger/copy", f.URL + "/victim/x?/forger/copy", "/victim/copy", "//" + strings.TrimPrefix(f.URL, "http://") + "/victim/copy",
	} {
		status, answer := post(t, hubURL, victim, location, forged)
		if status != http.StatusForbidden || !strings.Contains(answer, "What was posted has to be what the topic URI serves") {
			t.Errorf("with the copy %q: %d %s", location, status, answer)
		}
	}
	for _, path := range []string{"/forger/copy", "/victim/%2e%2e/forger/copy"} {
		if n := f.requests(path); n != 0 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}

	// The topic check is remembered, and says nothing about the content.
	if status, answer := post(t, hubURL, victim, "", genuine); status != http.StatusOK {
		t.Fatalf("the genuine one: %d %s", status, answer)
	}
	f.says("/victim/", "/victim/", interval(1, 2, "next"))
	if status, _ := post(t, hubURL, victim, "", interval(1, 2, "forged")); status != http.StatusForbidden {
		t.Errorf("with the check remembered: %d", status)
	}
	// It serves the posted content until the hub has compared it, and something else afterwards.
	// The hub stores the posted content.
	next := interval(1, 2, "next")
	f.mu.Lock()
	f.serve["/victim/"] = func(w http.ResponseWriter, _ *http.Request) {
		f.serve["/victim/"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, forged) }
		_, _ = io.WriteString(w, next)
	}
	f.mu.Unlock()
	if status, answer := post(t, hubURL, victim, "", next); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
	if got := bodies(t, store, victim); len(got) != 2 || got[0] != genuine || got[1] != next {
		t.Errorf("the journal has %q", got)
	}
	if got := bodies(t, store, f.URL+"/forger/"); len(got) != 0 {
		t.Errorf("the forger's topic has %q", got)
	}
}

// A duplicate is answered without asking the topic, and so must store nothing.
func TestDuplicateOfAStrangerStoresNothing(t *testing.T) {
	hubURL, store := realHub(t)
	f := newForger(t)
	f.hub = hubURL
	body := interval(0, 1, "x")
	f.says("/t/", "/t/", body)
	if status, answer := post(t, hubURL, f.URL+"/t/", "", body); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	f.says("/t/", "/t/", "gone")
	asked := f.requests("/t/")
	if status, answer := post(t, hubURL, f.URL+"/t/", "", body); status != http.StatusOK || !strings.Contains(answer, `"duplicate":true`) {
		t.Errorf("%d %s", status, answer)
	}
	if n := f.requests("/t/") - asked; n != 0 || len(bodies(t, store, f.URL+"/t/")) != 1 {
		t.Errorf("it was asked %d times, %d are stored", n, len(bodies(t, store, f.URL+"/t/")))
	}
}

func bodies(t *testing.T, store *embedstore.Store, topic string) (all []string) {
	t.Helper()
	entries, err := store.Read(t.Context(), topic, journal.Anchor{}, 10, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, string(e.Body))
	}
	return all
}
