package publisher_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// startHub runs a real hub, as it is by default but for loopback addresses.
func startHub(t testing.TB, dir string, args ...string) *app.App {
	t.Helper()
	cfg, _, err := config.Load(append([]string{
		"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--allow-cidr=127.0.0.0/8", "--data-dir=" + dir,
	}, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(cfg, nil, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return a
}

// site is a web server whose handler comes later, as a topic has to be known
// before its publisher is.
type site struct {
	*httptest.Server
	mux *http.ServeMux
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{mux: http.NewServeMux()}
	s.Server = httptest.NewServer(s.mux)
	t.Cleanup(s.Close)
	return s
}

func (s *site) topic() string { return s.URL + "/changes/" }

func updated(loc string) publisher.Change {
	return publisher.Change{Entry: resourcesync.Entry{Loc: loc, Change: resourcesync.Updated}}
}

// run runs p until the test ends, and closes it then.
func run(t testing.TB, p *publisher.Publisher) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The hub's default settings take what is published, by the topic's content alone.
func TestPublishesByContent_SRC02_SRC07_HUB53(t *testing.T) {
	s := newSite(t)
	hub := startHub(t, filepath.Join(t.TempDir(), "data"))
	p, err := publisher.Open(publisher.Options{
		Dir: t.TempDir(), Topic: s.topic(), Hubs: []publisher.Hub{{URL: hub.HubURL()}}, Every: time.Millisecond,
		CapabilityList: s.URL + "/capabilitylist.xml",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mux.Handle("/changes/", p.Handler())
	run(t, p)
	for range 5 {
		if err := p.Record(t.Context(), updated(s.URL+"/data/a"), updated(s.URL+"/data/b")); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	st := p.Status()
	if st.Hubs[0].State != publisher.UpToDate || st.Hubs[0].LastStatus != http.StatusOK || st.Queued != 0 {
		t.Errorf("%+v", st)
	}
}

// A token or a secret lets in what the hub could not fetch (SRC-07, HUB-53); the
// hub still wants to find itself named by the topic's URL.
func TestPublishesByCredential_SRC07_HUB53(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	secret, file := filepath.Join(dir, "secret.txt"), filepath.Join(dir, "publishers.yaml")
	if err := os.WriteFile(secret, []byte("an-hmac-secret-of-some-length-0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("a-token"))
	if err := os.WriteFile(file, fmt.Appendf(nil, `publishers:
  - name: by-token
    topics: ["%s"]
    token_sha256: ["%s"]
  - name: by-secret
    topics: ["%s"]
    hmac_secret_file: %s
`, s.URL+"/token/", hex.EncodeToString(sum[:]), s.URL+"/secret/", secret), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := startHub(t, filepath.Join(dir, "data"), "--publish-auth=token", "--publishers-file="+file)
	for name, h := range map[string]publisher.Hub{
		"token":  {URL: hub.HubURL(), Token: "a-token"},
		"secret": {URL: hub.HubURL(), Secret: "an-hmac-secret-of-some-length-0123456789"},
		"wrong":  {URL: hub.HubURL(), Token: "another"},
	} {
		path := "/" + name + "/"
		p, err := publisher.Open(publisher.Options{Dir: filepath.Join(dir, name), Topic: s.URL + path, Hubs: []publisher.Hub{h}})
		if err != nil {
			t.Fatal(err)
		}
		s.mux.Handle(path, p.Handler())
		run(t, p)
		if err := p.Record(t.Context(), updated(s.URL+"/data/a")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if name != "wrong" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		}
		err = p.Flush(ctx)
		cancel()
		if name == "wrong" {
			if st := p.Status().Hubs[0]; err == nil || st.LastStatus != http.StatusUnauthorized || !strings.Contains(st.LastError, "token") {
				t.Errorf("a wrong token: %v, %+v", err, st)
			}
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Large notifications over a real connection: the hub that takes less says so
// before it is sent all of it, and gets parts (HUB-56). Framework notifications
// go the same way to a topic of their own (HUB-57, SRC-01).
func TestLargeAndFrameworkNotifications_HUB56_HUB57_SRC01(t *testing.T) {
	s := newSite(t)
	hub := startHub(t, filepath.Join(t.TempDir(), "data"), "--max-body=1MiB")
	options := publisher.Options{
		Dir: t.TempDir(), Topic: s.topic(), Hubs: []publisher.Hub{{URL: hub.HubURL()}}, CapabilityList: s.URL + "/capabilitylist.xml",
	}
	p, err := publisher.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	s.mux.Handle("/changes/", p.Handler())
	options.Dir, options.Topic, options.Kind = t.TempDir(), s.URL+"/framework/", publisher.Framework
	options.SourceDescription = s.URL + "/.well-known/resourcesync"
	f, err := publisher.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	s.mux.Handle("/framework/", f.Handler())
	run(t, p)
	run(t, f)
	var changes []publisher.Change
	for n := range 5000 {
		changes = append(changes, updated(fmt.Sprintf("%s/data/%0500d", s.URL, n)))
	}
	if err := p.Record(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	for _, capability := range []string{resourcesync.CapabilityList, resourcesync.ResourceDump} {
		e := resourcesync.Entry{Loc: s.URL + "/" + capability + ".xml", Change: resourcesync.Created, Capability: capability}
		if err := f.Record(t.Context(), publisher.Change{Entry: e}); err != nil {
			t.Fatal(err)
		}
	}
	for _, publishing := range []*publisher.Publisher{p, f} {
		if err := publishing.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if st := p.Status(); st.Kept < 5 || st.Hubs[0].State != publisher.UpToDate {
		t.Errorf("%+v", st)
	}
}
