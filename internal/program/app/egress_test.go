package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/test/ports"
)

// outlet is a proxy that answers for all hosts itself: it echoes challenges, and
// accepts deliveries.
type outlet struct {
	*httptest.Server
	password string
	got      chan string // what was delivered
}

func startOutlet(t *testing.T, addr, password string) *outlet {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	o := &outlet{password: password, got: make(chan string, 100)}
	o.Server = httptest.NewUnstartedServer(o)
	_ = o.Listener.Close()
	o.Listener = l
	o.Start()
	t.Cleanup(o.Close)
	return o
}

func (o *outlet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
	switch {
	case password != o.password:
		w.WriteHeader(http.StatusProxyAuthRequired)
	case r.Method == http.MethodPost:
		o.got <- r.RequestURI
	default:
		_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
	}
}

// With --egress-proxy a hub calls names that it cannot look up itself. While the proxy is
// down, deliveries fail and no callback counts as unreachable. They succeed when it is back.
// Its password is in no line of the log.
func TestEgressProxy(t *testing.T) {
	const password = "pa55word"
	proxy := startOutlet(t, ports.Addr(), password) // where it can come back
	cfg, _, err := config.Load([]string{
		"--dev", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data-dir=" + filepath.Join(t.TempDir(), "data"), "--log-level=debug",
		"--topic-check=off", "--retry-first=100ms", "--retry-max=100ms", "--egress-proxy=http://hub:" + password + "@" + proxy.Listener.Addr().String(),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	a, err := New(cfg, zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), &log, zapcore.DebugLevel)), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	defer stop()
	m := &metered{App: a, t: t}
	m.subscribe("http://callback.test/cb?x=%7e")
	m.publish(0, 1, http.StatusOK)()
	if got := <-proxy.got; got != "http://callback.test/cb?x=%7e" {
		t.Errorf("delivered to %q", got)
	}

	proxy.Close()
	m.publish(1, 2, http.StatusOK)()
	const failed = `rshub_deliveries_total{code="error",outcome="retry"}`
	m.until("deliveries fail", func(f figures) string {
		if f[failed] < 5 {
			return fmt.Sprintf("%s is %v", failed, f[failed])
		}
		return ""
	})
	if f := m.figures(); f["rshub_suspect_hosts"] != 0 || f[`rshub_deliveries_total{code="connect",outcome="retry"}`] != 0 {
		t.Errorf("the callback is blamed: %v suspects", f["rshub_suspect_hosts"])
	}
	back := startOutlet(t, proxy.Listener.Addr().String(), password)
	select {
	case <-back.got:
	case <-time.After(time.Minute):
		t.Error("nothing was delivered after the proxy was back")
	}

	stop()
	text := log.String()
	if !strings.Contains(text, "--egress-proxy") || strings.Contains(text, password) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("hub:"+password))) {
		t.Errorf("the log: %s", text)
	}
}

// syncBuffer is a buffer that many may write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) Sync() error { return nil }

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
