package destination_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/websub"
)

// verifier is a hub that verifies what it is asked for, and remembers it by callback.
type verifier struct {
	*httptest.Server
	mu    sync.Mutex
	modes map[string]string // the last verified mode, by topic
	calls map[string]string // the callback, by topic
	keys  map[string]string // the secret, by topic
}

func newVerifier(t *testing.T) *verifier {
	v := &verifier{modes: map[string]string{}, calls: map[string]string{}, keys: map[string]string{}}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		callback, mode, topic := r.PostFormValue(websub.ParamCallback), r.PostFormValue(websub.ParamMode), r.PostFormValue(websub.ParamTopic)
		secret := r.PostFormValue(websub.ParamSecret)
		w.WriteHeader(http.StatusAccepted)
		to := websub.AppendQuery(callback, websub.Param{Name: websub.ParamMode, Value: mode}, websub.Param{Name: websub.ParamTopic, Value: topic},
			websub.Param{Name: websub.ParamChallenge, Value: "abc"}, websub.Param{Name: websub.ParamLeaseSeconds, Value: "3600"})
		go func() {
			resp, err := http.Get(to) //nolint:noctx // it is on loopback, and short
			if err != nil {
				return
			}
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				v.mu.Lock()
				v.modes[topic], v.calls[topic], v.keys[topic] = mode, callback, secret
				v.mu.Unlock()
			}
		}()
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *verifier) mode(topic string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.modes[topic]
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never was so: " + what)
		}
	}
}

// pushes has a Source name a topic and a hub.
func (s *source) pushes(hub string) {
	s.set("/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/.well-known/resourcesync"}}},
			resourcesync.Entry{Loc: s.URL + "/resourcelist.xml", Capability: resourcesync.ResourceList}, resourcesync.Entry{Loc: s.URL + "/changelist.xml", Capability: resourcesync.ChangeList},
			resourcesync.Entry{Loc: s.URL + "/changes/", Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: hub}}})
	})
	s.set("/changes/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<`+s.URL+`/changes/>; rel="self", <`+hub+`>; rel="hub"`)
	})
}

// fleet is a Fleet that runs at a callback.
type fleet struct {
	*destination.Fleet
	t    *testing.T
	root string
	url  string // of its callback
	end  func()
}

func startFleet(t *testing.T, root string, at *httptest.Server, handler *atomic.Pointer[http.Handler], members ...destination.Member) *fleet {
	t.Helper()
	f, err := destination.OpenFleet(destination.FleetOptions{Dir: filepath.Join(root, "fleet"), Callback: at.URL + "/cb/", Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Set(members); err != nil {
		t.Fatal(err)
	}
	h := f.Handler()
	handler.Store(&h)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	out := &fleet{Fleet: f, t: t, root: root, url: at.URL + "/cb/"}
	out.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(out.end)
	return out
}

func (f *fleet) set(members ...destination.Member) {
	f.t.Helper()
	if err := f.Set(members); err != nil {
		f.t.Fatal(err)
	}
}

// of is the status of a member; a zero one: there is none.
func (f *fleet) of(name string) destination.MemberStatus {
	for _, st := range f.Status() {
		if st.Name == name {
			return st
		}
	}
	return destination.MemberStatus{}
}

func callbackServer(t *testing.T) (*httptest.Server, *atomic.Pointer[http.Handler]) {
	var handler atomic.Pointer[http.Handler]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	return s, &handler
}

func (f *fleet) member(name string, s string) destination.Member {
	return destination.Member{Name: name, Version: "1", Options: destination.Options{Source: s, Dir: filepath.Join(f.root, name), Roots: []destination.Root{{URL: s + "/data/", Dir: "."}}}}
}

// Sources that hang, are gone, or lie delay no other. A copy that is left out is unsubscribed,
// which its hub verifies, and stays; also where the Fleet was not running when it was left out.
func TestFleet(t *testing.T) {
	before := goleak.IgnoreCurrent()
	hub := newVerifier(t)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	lies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(lies.Close)
	gone := "http://" + ports.Addr()
	a, b := newSource(t), newSource(t)
	for _, s := range []*source{a, b} {
		s.put("file", "first", 0)
		s.pushes(hub.URL)
	}
	at, handler := callbackServer(t)
	root := t.TempDir()
	m := (&fleet{root: root}).member
	broken := []destination.Member{m("hangs", hangs.URL), m("lies", lies.URL), m("gone", gone)}
	f := startFleet(t, root, at, handler, append(broken, m("a", a.URL), m("b", b.URL))...)
	for name, s := range map[string]*source{"a": a, "b": b} {
		eventually(t, name+" is subscribed", func() bool { return hub.mode(s.URL+"/changes/") == "subscribe" })
		s.same(filepath.Join(root, name))
		if st := f.of(name); !st.Ready || st.State != destination.StateFollowing || st.Trouble != "" {
			t.Errorf("%+v", st)
		}
		hub.mu.Lock()
		if c := hub.calls[s.URL+"/changes/"]; !strings.HasPrefix(c, f.url+name+"/") || strings.Count(c[len(f.url):], "/") != 2 {
			t.Errorf("the callback of %s is %s", name, c)
		}
		hub.mu.Unlock()
	}
	eventually(t, "troubles are known", func() bool { return f.of("lies").Trouble != "" && f.of("gone").Trouble != "" })

	// The file stays, the subscription does not. Others go on undisturbed.
	since := f.of("b").Since
	f.set(append(broken, m("b", b.URL))...)
	eventually(t, "a is unsubscribed", func() bool { return hub.mode(a.URL+"/changes/") == "unsubscribe" })
	eventually(t, "a is forgotten", func() bool { return f.of("a").Name == "" })
	a.same(filepath.Join(root, "a"))
	if st := f.of("b"); !st.Since.Equal(since) {
		t.Errorf("b began again: %+v", st)
	}
	eventually(t, "the status can be read", func() bool {
		all, err := destination.ReadFleet(filepath.Join(root, "fleet"))
		return err == nil && len(all) == 4 && all[0].Name == "b" && len(all[0].Sets) == 1
	})
	f.end()

	// Left out while nobody ran.
	f = startFleet(t, root, at, handler, broken...)
	eventually(t, "b is unsubscribed", func() bool { return hub.mode(b.URL+"/changes/") == "unsubscribe" })
	eventually(t, "b is forgotten", func() bool { return f.of("b").Name == "" })
	f.end()

	// And another name for the same folder: subscribed anew, and the old one ended.
	f = startFleet(t, root, at, handler, m("b", b.URL))
	eventually(t, "b is subscribed again", func() bool { return hub.mode(b.URL+"/changes/") == "subscribe" })
	again := m("c", b.URL)
	again.Options.Dir = filepath.Join(root, "b")
	f.set(again)
	eventually(t, "c is subscribed", func() bool {
		hub.mu.Lock()
		defer hub.mu.Unlock()
		return strings.HasPrefix(hub.calls[b.URL+"/changes/"], f.url+"c/") && hub.modes[b.URL+"/changes/"] == "subscribe"
	})
	f.end()
	hangs.CloseClientConnections()
	http.DefaultClient.CloseIdleConnections()
	for _, s := range []*httptest.Server{hangs, lies, hub.Server, a.Server, b.Server, at} {
		s.Close()
	}
	goleak.VerifyNone(t, before)
}

// Members that cannot be together are refused, and those that run go on.
func TestFleetRefuses(t *testing.T) {
	root := t.TempDir()
	f, err := destination.OpenFleet(destination.FleetOptions{Dir: filepath.Join(root, "fleet")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	at := func(name, source, dir string) destination.Member {
		return destination.Member{Name: name, Options: destination.Options{Source: source, Dir: filepath.Join(root, dir)}}
	}
	stateAt := func(m destination.Member, dir string) destination.Member {
		m.Options.StateDir = filepath.Join(root, dir)
		return m
	}
	many := make([]destination.Member, destination.MaxMembers+1)
	for i := range many {
		many[i] = at(fmt.Sprint("m", i), "https://a.example/", fmt.Sprint(i))
	}
	if err := os.Symlink(root, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for says, members := range map[string][]destination.Member{
		"cannot be the name":                              {at("../x", "https://a.example/", "a")},
		"two copies have the name":                        {at("x", "https://a.example/", "a"), at("X", "https://b.example/", "b")},
		"have the same folder":                            {at("x", "https://a.example/", "a"), at("y", "https://b.example/", "link/a")},
		"is within the folder of x":                       {at("x", "https://a.example/", "a"), at("y", "https://b.example/", "a/b/c")},
		"the state folder of y is within the folder of x": {at("x", "https://a.example/", "a"), stateAt(at("y", "https://b.example/", "b"), "a/y")},
		"the folder of y is within the state folder of x": {stateAt(at("x", "https://a.example/", "a"), "s"), at("y", "https://b.example/", "s/y")},
		"have the same folder " + root + "/s":             {stateAt(at("x", "https://a.example/", "a"), "s"), stateAt(at("y", "https://b.example/", "b"), "link/s")},
		"contains " + filepath.Join(root, "fleet") + ", where the state of all copies is; give the copy a folder of its own": {at("x", "https://a.example/", "link")},
		"the state folder " + root + "/fleet contains":                           {stateAt(at("x", "https://a.example/", "a"), "fleet")},
		"where the state of all copies is; give the copy a folder outside of it": {at("x", "https://a.example/", "a"), at("y", "https://b.example/", "link/fleet/b")},
		"is not the address of a Source":                                         {at("x", "ftp://a.example/", "a")},
		"at most 1000":                                                           many,
	} {
		if err := f.Set(members); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, and it should say %q", err, says)
		}
	}
	if len(f.Status()) != 0 {
		t.Errorf("%+v", f.Status())
	}
	if _, err := destination.OpenFleet(destination.FleetOptions{}); err == nil {
		t.Error("a fleet without a folder")
	}
}
