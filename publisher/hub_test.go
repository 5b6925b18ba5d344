package publisher_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/app"
	"github.com/rshub/rshub/internal/config"
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
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
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

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
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
