package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

const (
	sickPairs = 5
	// The sick hosts have so many of the callbacks: one is dead, and four are slow.
	ofSickHost = callbacks / 100
	slowHosts  = 4
	// slowAnswer is less than --timeout.
	slowAnswer = 5 * time.Second
)

// BenchmarkBesideSickHosts is the 99th percentile of the time from a publish to healthy callbacks, at half of
// the full rate, while a host with 1 % of all callbacks is dead and hosts with 4 % of them take 5 s to
// answer, as a ratio to that while these are healthy too.
func BenchmarkBesideSickHosts(b *testing.B) {
	hub := startHub(b, "--retry-first=1s", "--retry-max=1s") // so that the dead host is tried often, and has caught up soon after
	receivers, sick := startReceivers(b), newSickHosts(b)
	src := &source{topic: hub.HubURL() + "topic", hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	src.publish(b)
	const healthy = callbacks - (1+slowHosts)*ofSickHost
	for i := range healthy {
		subscribe(b, hub.HubURL(), src.topic, fmt.Sprintf("%s%s%d", receivers.hosts[i%hosts], stamped, i))
	}
	for i := range callbacks - healthy {
		subscribe(b, hub.HubURL(), src.topic, fmt.Sprintf("%s/%d", sick.urls[i%len(sick.urls)], i))
	}
	waitActive(b, hub)
	published := int64(0)
	publish := func() {
		src.stamped(b)
		published++
	}
	arrived := func() {
		if want := published * healthy; receivers.count(b, want) != want {
			b.Fatal("deliveries to healthy callbacks are missing")
		}
		want := published * (callbacks - healthy)
		for deadline := time.Now().Add(time.Minute); sick.got.Load() < want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				b.Fatalf("%d deliveries to hosts that were sick are missing", want-sick.got.Load())
			}
		}
	}
	full := func() time.Duration {
		const n = 20
		start := time.Now()
		for range n {
			publish()
		}
		arrived()
		return time.Since(start) / n
	}
	full()
	pace := 2 * full()
	phase := func() float64 {
		receivers.p99(b) // forget what came before
		for next, end := time.Now(), time.Now().Add(5*time.Second); next.Before(end); next = next.Add(pace) {
			time.Sleep(time.Until(next))
			publish()
		}
		receivers.count(b, published*healthy)
		return receivers.p99(b)
	}
	for b.Loop() {
		var ratios, alone []float64
		for range sickPairs {
			without := phase()
			arrived()
			sick.set(b, true)
			with := phase()
			sick.set(b, false)
			arrived()
			alone, ratios = append(alone, without), append(ratios, with/without)
		}
		b.ReportMetric(middle(ratios), "x-all-healthy-p99")
		b.ReportMetric(slices.Min(ratios), "x-min")
		b.ReportMetric(slices.Max(ratios), "x-max")
		b.ReportMetric(middle(alone), "all-healthy-p99-ms")
		b.ReportMetric(callbacks/pace.Seconds(), "deliveries/s")
	}
}

// sickHosts are hosts of callbacks that are healthy at first. The first one is dead at times, and the others
// are slow.
type sickHosts struct {
	urls   []string
	got    atomic.Int64
	mortal *http.Server                  // that of the first one
	well   atomic.Pointer[chan struct{}] // closed while they are healthy
}

func newSickHosts(b *testing.B) *sickHosts {
	b.Helper()
	s := new(sickHosts)
	well := make(chan struct{})
	close(well)
	s.well.Store(&well)
	for i := range 1 + slowHosts {
		l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		server := s.serve(l)
		if i == 0 {
			s.mortal = server
		} else {
			b.Cleanup(func() { _ = server.Close() })
		}
		s.urls = append(s.urls, "http://"+l.Addr().String())
	}
	b.Cleanup(func() { _ = s.mortal.Close() })
	return s
}

func (s *sickHosts) serve(l net.Listener) *http.Server {
	server := &http.Server{Addr: l.Addr().String(), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(s.answer)}
	go func() { _ = server.Serve(l) }()
	return server
}

func (s *sickHosts) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	select {
	case <-*s.well.Load():
	case <-time.After(slowAnswer):
	}
	s.got.Add(1)
}

// set makes the hosts sick, or healthy again.
func (s *sickHosts) set(b *testing.B, sick bool) {
	b.Helper()
	if sick {
		well := make(chan struct{})
		s.well.Store(&well)
		_ = s.mortal.Close()
		return
	}
	close(*s.well.Load())
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.mortal.Addr)
	if err != nil {
		b.Fatal(err)
	}
	s.mortal = s.serve(l)
}
