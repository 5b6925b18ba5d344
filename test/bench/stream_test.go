package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/app"
)

const (
	// streams is how many streams a hub has in BenchmarkStreams, beside as many bare connections. All of
	// them fit into the 20,000 files that a process here may have open.
	streams = 9_900
	// idleStreams is how many do nothing.
	idleStreams = 10_000
	// deafStreams is how many read nothing.
	deafStreams = 1_000
	// streamRounds is how many notifications a sample sends to all.
	streamRounds = 5
)

// streamed starts a hub that takes streams, and returns the request that opens one.
func streamed(b *testing.B, more ...string) (hub *app.App, src *source, request []byte) {
	b.Helper()
	hub = startHub(b, append([]string{"--max-streams=0"}, more...)...)
	src = &source{topic: hub.HubURL() + "topic", hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), comment: mark}
	src.publish(b)
	return hub, src, streamRequest(b, src)
}

// streamRequest is what opens a stream of the topic of a source.
func streamRequest(b *testing.B, src *source) []byte {
	b.Helper()
	u, err := url.Parse(src.hub)
	if err != nil {
		b.Fatal(err)
	}
	return fmt.Appendf(nil, "GET %s?hub.topic=%s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", u.Path, url.QueryEscape(src.topic), u.Host)
}

// address is where the hub listens.
func address(b *testing.B, hub *app.App) string {
	b.Helper()
	u, err := url.Parse(hub.HubURL())
	if err != nil {
		b.Fatal(err)
	}
	return u.Host
}

// BenchmarkStreams is the rate at which a hub writes notifications to streams, from publish to the last
// reader, as a ratio to a bare loop that writes the same bytes to as many connections: one notification after the
// other, and several that a Source publishes at once, which the hub writes together.
func BenchmarkStreams(b *testing.B) {
	b.Run("one", func(b *testing.B) { busy(b, 1) })
	b.Run("together", func(b *testing.B) { busy(b, streamRounds) })
}

func busy(b *testing.B, atOnce int) {
	hub, src, request := streamed(b)
	text := oneEvent(b, src, request, address(b, hub))
	r := startReaders(b)
	r.do(order{Open: streams, Addr: address(b, hub), Request: request}, streams)
	bare := acceptBare(b, r, streams)
	var expected int64
	run := func(notify func()) func() {
		return func() {
			for i := range streamRounds {
				notify()
				expected += streams
				if (i+1)%atOnce == 0 {
					r.do(order{Wait: expected}, expected)
				}
			}
		}
	}
	runBare, runHub := run(func() { bare.write(b, text) }), run(func() { src.publish(b) })
	runBare()
	runHub()
	for b.Loop() {
		var ratios []float64
		var hubs, bares []cost
		for range pairs {
			base, got := measure(streamRounds*streams, runBare), measure(streamRounds*streams, runHub)
			bares, hubs = append(bares, base), append(hubs, got)
			ratios = append(ratios, got.rate/base.rate)
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "x-bare-loop")
		b.ReportMetric(ratios[0], "x-min")
		b.ReportMetric(ratios[len(ratios)-1], "x-max")
		b.ReportMetric(median(hubs, func(c cost) float64 { return c.cpu }), "cpu-us/event")
		b.ReportMetric(median(bares, func(c cost) float64 { return c.cpu }), "bare-cpu-us/event")
		b.ReportMetric(median(hubs, func(c cost) float64 { return c.allocs }), "allocs/event")
		b.ReportMetric(median(hubs, func(c cost) float64 { return c.rate }), "events/s")
	}
}

// oneEvent returns what a stream sends for a notification, as it is sent.
func oneEvent(b *testing.B, src *source, request []byte, addr string) []byte {
	b.Helper()
	c, err := net.Dial("tcp", addr) //nolint:noctx // it has a deadline
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(request); err != nil {
		b.Fatal(err)
	}
	in := bufio.NewReader(c)
	for line := ""; !strings.HasPrefix(line, "id: "); { // the position, with which each stream begins
		if line, err = in.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	src.publish(b)
	var text bytes.Buffer
	for !bytes.Contains(text.Bytes(), []byte(mark)) || !bytes.Contains(text.Bytes(), []byte("id: ")) {
		line, err := in.ReadBytes('\n')
		if err != nil {
			b.Fatal(err)
		}
		text.Write(line)
	}
	return text.Bytes()
}

// bareConns are connections to which the same bytes are written, with nothing around it.
type bareConns []net.Conn

func acceptBare(b *testing.B, r *readers, n int) bareConns {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed below
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	conns := make(bareConns, n)
	var accepted sync.WaitGroup
	accepted.Go(func() {
		for i := range conns {
			if conns[i], err = l.Accept(); err != nil {
				return
			}
		}
	})
	r.do(order{Open: n, Addr: l.Addr().String()}, int64(n))
	accepted.Wait()
	if err != nil {
		b.Fatal(err)
	}
	return conns
}

// write writes text to each connection, with a goroutine for each processor.
func (conns bareConns) write(b *testing.B, text []byte) {
	b.Helper()
	var all sync.WaitGroup
	for part := range slices.Chunk(conns, (len(conns)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for _, c := range part {
				if _, err := c.Write(text); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkIdleStreams is what an idle stream costs: memory of the process, and of its processor for all
// of them together. A handler of net/http that does nothing but wait is the measure.
func BenchmarkIdleStreams(b *testing.B) {
	b.Run("plain", func(b *testing.B) { idle(b, false) })
	b.Run("tls", func(b *testing.B) { idle(b, true) })
}

func idle(b *testing.B, secure bool) {
	var flags []string
	var cert, key string
	if secure {
		cert, key = certificate(b)
		flags = []string{"--tls-cert=" + cert, "--tls-key=" + key}
	}
	hub, _, request := streamed(b, flags...)
	r := startReaders(b)
	for b.Loop() {
		waiting := make(chan struct{})
		bare := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-q.Context().Done():
			case <-waiting:
			}
		})}
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the server closes it
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			if secure {
				_ = bare.ServeTLS(l, cert, key)
			} else {
				_ = bare.Serve(l)
			}
		}()
		b.ReportMetric(memoryOfEach(b, r, order{Open: idleStreams, Addr: l.Addr().String(), Request: request, TLS: secure}), "bare-KiB/stream")
		close(waiting)
		_ = bare.Close()
		b.ReportMetric(memoryOfEach(b, r, order{Open: idleStreams, Addr: address(b, hub), Request: request, TLS: secure}), "KiB/stream")
		if !secure {
			b.ReportMetric(bareBeats(b, r), "bare-cpu-%")
		}
	}
}

// bareBeats returns the share of a processor that a loop takes which writes a comment to each of as many
// connections every 15 s, one after the other.
func bareBeats(b *testing.B, r *readers) float64 {
	b.Helper()
	conns := acceptBare(b, r, idleStreams)
	defer func() {
		r.do(order{Close: true}, idleStreams)
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	pace := time.NewTicker(15 * time.Second / idleStreams)
	defer pace.Stop()
	time.Sleep(2 * time.Second)
	cpu, start := cpuTime(), time.Now()
	for range 2 {
		for _, c := range conns {
			<-pace.C
			if _, err := c.Write([]byte("3\r\n:\n\n\r\n")); err != nil {
				b.Fatal(err)
			}
		}
	}
	return 100 * (cpuTime() - cpu).Seconds() / time.Since(start).Seconds()
}

// memoryOfEach returns how much memory of this process each connection of an order takes, in KiB. Then it
// reports the share of a processor that they take in half a minute, and closes them. The last report counts:
// that of the hub's.
func memoryOfEach(b *testing.B, r *readers, o order) float64 {
	b.Helper()
	before := resident(b)
	r.do(o, int64(o.Open))
	time.Sleep(2 * time.Second)
	each := float64(resident(b)-before) / 1024 / float64(o.Open)
	cpu, start := cpuTime(), time.Now()
	time.Sleep(30 * time.Second) // two beats of each stream
	b.ReportMetric(100*(cpuTime()-cpu).Seconds()/time.Since(start).Seconds(), "cpu-%")
	r.do(order{Close: true}, int64(o.Open))
	time.Sleep(2 * time.Second)
	return each
}

// BenchmarkDeafStreams is how much memory of the process 1,000 readers take that read nothing, while
// 64 MiB are published to them.
func BenchmarkDeafStreams(b *testing.B) {
	hub, src, request := streamed(b, "--stream-stall=1h")
	r := startReaders(b)
	for b.Loop() {
		before := resident(b)
		r.do(order{Open: deafStreams, Addr: address(b, hub), Request: request, Sluggish: true}, deafStreams)
		src.comment = mark + strings.Repeat("q", 64<<10)
		for range 1024 {
			src.publish(b)
		}
		time.Sleep(2 * time.Second)
		b.ReportMetric(float64(resident(b)-before)/1024/deafStreams, "KiB/stream")
		r.do(order{Close: true}, deafStreams)
		src.comment = mark
	}
}

// resident returns the memory of this process that is in use, in bytes.
func resident(b *testing.B) int64 {
	b.Helper()
	debug.FreeOSMemory()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("no /proc: ", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// certificate writes the certificate of a test server and its key into files. From then on the client
// of this process trusts every certificate.
func certificate(b *testing.B) (cert, key string) {
	b.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the certificate names another host
	}
	raw, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return cert, key
}
