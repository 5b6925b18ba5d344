package bench

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkWire counts the bytes that a delivery of about 1 KB sends and gets back, without those of
// TCP and IP. The callback answers 204 with no more than it has to.
func BenchmarkWire(b *testing.B) {
	const notifications = 100
	hub := startHub(b)
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	l := &countingListener{Listener: listener}
	got := make(chan struct{}, notifications)
	callback := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(r.URL.Query().Get("hub.challenge")))
			return
		}
		w.WriteHeader(http.StatusNoContent)
		got <- struct{}{}
	})}
	go func() { _ = callback.Serve(l) }()
	defer func() { _ = callback.Shutdown(context.Background()) }()
	src := &source{topic: hub.HubURL() + "topic", hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	subscribe(b, hub.HubURL(), src.topic, "http://"+l.Addr().String()+"/callback/123456")
	waitActive(b, hub)
	publish := func() {
		src.publish(b)
		select {
		case <-got:
		case <-time.After(time.Minute):
			b.Fatal("no delivery within a minute")
		}
	}
	publish()
	sent, received := l.read.Load(), l.written.Load()
	for range notifications {
		publish()
	}
	b.ReportMetric(float64(l.read.Load()-sent)/notifications, "sent-B/delivery")
	b.ReportMetric(float64(l.written.Load()-received)/notifications, "received-B/delivery")
}

// countingListener counts the bytes of all its connections.
type countingListener struct {
	net.Listener
	read, written atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countingConn{c, l}, err
}

type countingConn struct {
	net.Conn
	of *countingListener
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.of.read.Add(int64(n))
	return n, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.of.written.Add(int64(n))
	return n, err
}
