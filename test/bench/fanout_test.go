package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/websub"
)

const (
	hosts     = 64
	callbacks = 1000
	pairs     = 10
	// rounds of one sample: this many notifications to every callback, and so perSample deliveries.
	rounds    = 10
	perSample = rounds * callbacks
	// perHost is how many deliveries the hub makes to a host at once, by default.
	perHost = 8
)

// shape is what is delivered to whom.
type shape struct {
	callbacks, rounds int           // of a sample
	workers           int           // how many POSTs the loops make at once
	path, comment     string        // as of source
	answers           time.Duration // what a receiver waits before it answers
	env               []string      // of the receivers
	signed            bool          // also compare with a bare loop that signs each body
}

var usual = shape{callbacks: callbacks, rounds: rounds, workers: hosts}

func (s shape) deliveries() int { return s.callbacks * s.rounds }

// cost is the cost of a sample.
type cost struct {
	rate   float64 // deliveries a second
	cpu    float64 // microseconds of this process a delivery
	allocs float64 // a delivery
}

// measure runs work, which makes n deliveries.
func measure(n int, work func()) cost {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	work()
	took := time.Since(start)
	spent := cpuTime() - cpu
	runtime.ReadMemStats(&after)
	return cost{
		rate:   float64(n) / took.Seconds(),
		cpu:    float64(spent.Microseconds()) / float64(n),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFanOut is the hub's fan-out, from publish to last delivery, over the durable store with
// secrets, as a ratio to two loops that make the same POSTs to the same receivers and nothing else: a
// bare one of net/http, and one of the connections that the hub uses.
func BenchmarkFanOut(b *testing.B) { fanOut(b, startHub(b), usual, func(work func()) { work() }) }

// BenchmarkFanOutOf is BenchmarkFanOut of notifications of other sizes, to receivers that take 20 ms to
// answer, and to receivers with TLS. The loops make as many POSTs at once as the hub where receivers take
// their time. Most of the work for 1 MB is to sign it, which the loops leave out, so there one that signs is
// compared too.
func BenchmarkFanOutOf(b *testing.B) {
	for _, c := range []struct {
		name  string
		shape shape
	}{
		{"400B", shape{callbacks: callbacks, rounds: rounds, workers: hosts, path: "p"}},
		{"64KB", shape{callbacks: callbacks, rounds: 2, workers: hosts, comment: strings.Repeat("c", 64_000)}},
		{"1MB", shape{callbacks: 200, rounds: 3, workers: hosts, comment: strings.Repeat("c", 1_000_000), signed: true}},
		{"20ms", shape{callbacks: callbacks, rounds: rounds, workers: hosts * perHost, answers: 20 * time.Millisecond}},
	} {
		b.Run(c.name, func(b *testing.B) {
			fanOut(b, startHub(b), c.shape, func(work func()) { work() })
		})
	}
	b.Run("tls", func(b *testing.B) {
		cert, key := certificate(b)
		s := usual
		s.env = []string{secureEnv + "=" + cert + " " + key}
		fanOut(b, startHub(b, "--ca-file", cert), s, func(work func()) { work() })
	})
}

// fanOut measures the fan-out of a hub. Around does the hub's part of a sample, and may measure
// more of it.
func fanOut(b *testing.B, hub *app.App, s shape, around func(work func())) {
	receivers := receiversWith(b, s.env...)
	topic := hub.HubURL() + "topic"
	for i := range s.callbacks {
		subscribe(b, hub.HubURL(), topic, fmt.Sprintf("%s%s%d", receivers.hosts[i%hosts], after(s.answers), i))
	}
	waitActive(b, hub)
	src := &source{topic: topic, hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), path: s.path, comment: s.comment}
	bare := newBareLoop(receivers.hosts, s)
	same := newPostLoop(receivers.hosts, s)
	defer same.pool.CloseIdleConnections()

	var expected int64
	n := s.deliveries()
	sample := (&source{until: src.until, path: s.path, comment: s.comment}).body(b)
	await := func(who string) {
		expected += int64(n)
		if got := receivers.count(b, expected); got != expected {
			b.Fatalf("%s made %d deliveries, want %d", who, got, expected)
		}
	}
	signing := *bare
	signing.signs = true
	runBare := func() {
		bare.post(n, sample)
		await("the bare loop")
	}
	runSigning := func() {
		signing.post(n, sample)
		await("the bare loop that signs")
	}
	runSame := func() {
		same.post(n, sample)
		await("the loop of the same connections")
	}
	runHub := func() {
		for range s.rounds {
			src.publish(b)
		}
		await("the hub")
	}
	runBare() // warm up: connections, pages of the store
	runSame()
	runHub()
	for b.Loop() {
		var ratios, sames, signed []float64
		var hubs, bares, posts []cost
		for range pairs {
			base, got, post := measure(n, runBare), measure(n, func() { around(runHub) }), measure(n, runSame)
			bares, hubs, posts = append(bares, base), append(hubs, got), append(posts, post)
			ratios = append(ratios, got.rate/base.rate)
			sames = append(sames, got.rate/post.rate)
			if s.signed {
				signed = append(signed, got.rate/measure(n, runSigning).rate)
			}
		}
		if s.signed {
			slices.Sort(signed)
			b.ReportMetric(signed[len(signed)/2], "x-signing-loop")
		}
		slices.Sort(ratios)
		slices.Sort(sames)
		b.ReportMetric(sames[len(sames)/2], "x-same-loop")
		b.ReportMetric(median(posts, func(c cost) float64 { return c.cpu }), "same-cpu-us/delivery")
		b.ReportMetric(median(posts, func(c cost) float64 { return c.allocs }), "same-allocs/delivery")
		b.ReportMetric(ratios[len(ratios)/2], "x-bare-loop")
		b.ReportMetric(ratios[0], "x-min")
		b.ReportMetric(ratios[len(ratios)-1], "x-max")
		b.ReportMetric(median(hubs, func(c cost) float64 { return c.cpu }), "cpu-us/delivery")
		b.ReportMetric(median(bares, func(c cost) float64 { return c.cpu }), "bare-cpu-us/delivery")
		b.ReportMetric(median(hubs, func(c cost) float64 { return c.allocs }), "allocs/delivery")
		b.ReportMetric(median(bares, func(c cost) float64 { return c.allocs }), "bare-allocs/delivery")
		b.ReportMetric(median(hubs, func(c cost) float64 { return c.rate }), "deliveries/s")
	}
}

func median(costs []cost, of func(cost) float64) float64 {
	values := make([]float64, 0, len(costs))
	for _, c := range costs {
		values = append(values, of(c))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func startHub(b testing.TB, more ...string) *app.App {
	b.Helper()
	cfg, _, err := config.Load(append([]string{
		"--dev", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data-dir=" + b.TempDir(), "--topic-check=off",
	}, more...), nil)
	if err != nil {
		b.Fatal(err)
	}
	hub, err := app.New(cfg, nil, "bench")
	if err != nil {
		b.Fatal(err)
	}
	if err := hub.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := hub.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return hub
}

func send(b *testing.B, hub, mediaType, link string, body io.Reader, want int) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, hub, body)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", mediaType)
	if link != "" {
		req.Header.Set("Link", link)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != want {
		b.Fatalf("answered %d %s", resp.StatusCode, answer)
	}
}

func subscribe(b *testing.B, hub, topic, callback string) {
	b.Helper()
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}, "hub.secret": {"a secret of " + callback}}
	send(b, hub, "application/x-www-form-urlencoded", "", strings.NewReader(form.Encode()), http.StatusAccepted)
}

func waitActive(b *testing.B, hub *app.App) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+hub.AdminAddr()+"/api/v1/subscriptions?state=pending&limit=1", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK && !bytes.Contains(body, []byte(`"pending"`)) {
			return
		}
	}
	b.Fatal("some subscriptions are pending after a minute")
}

// longPath makes a notification about 1 KB long.
var longPath = strings.Repeat("p", 690)

// source publishes notifications with a change of one resource.
type source struct {
	topic, hub string
	until      time.Time
	path       string // of the resource; empty: longPath
	comment    string // in each document
}

func (s *source) body(b *testing.B) []byte {
	b.Helper()
	from := s.until
	s.until = from.Add(time.Second)
	path := s.path
	if path == "" {
		path = longPath
	}
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="%s" until="%s"/>
<url><loc>https://example.org/%s</loc><rs:md change="updated"/></url>
<!--%s--></urlset>
`, from.Format(time.RFC3339), s.until.Format(time.RFC3339), path, s.comment)
}

func (s *source) publish(b *testing.B) {
	b.Helper()
	send(b, s.hub, "application/xml", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, s.topic, s.hub), bytes.NewReader(s.body(b)), http.StatusOK)
}

// bareLoop makes only the POSTs: the best that net/http can do.
type bareLoop struct {
	transport *http.Transport
	urls      []*url.URL
	workers   int
	signs     bool // each body, with a secret of its own, as a hub must
}

func newBareLoop(hosts []string, s shape) *bareLoop {
	l := &bareLoop{transport: &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: perHost, DisableCompression: true, TLSClientConfig: trustAll}, workers: s.workers}
	for _, h := range hosts {
		u, err := url.Parse(h + after(s.answers) + "bare")
		if err != nil {
			panic(err) // our own receivers' addresses
		}
		l.urls = append(l.urls, u)
	}
	return l
}

// trustAll is for loops that only compare.
var trustAll = &tls.Config{InsecureSkipVerify: true}

// bareHeader is as long as the header that the hub sends.
func bareHeader() http.Header {
	return http.Header{
		"Content-Type":    {"application/xml"},
		"Link":            {`<http://localhost:12345/topic>; rel="self", <http://localhost:12345/>; rel="hub"`},
		"Rshub-Attempt":   {"1"},
		"User-Agent":      {"rshub/bench (+http://localhost:12345/)"},
		"Webhook-Id":      {"01a1fde0-b7e1-783d-bab2-93400a88ebae"},
		"X-Hub-Signature": {"sha256=182cdf08289abdf4852d33a404d8df3093fcf0c0195e76394b21f32db487cefd"},
	}
}

func (l *bareLoop) post(n int, body []byte) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range l.workers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				req := &http.Request{
					Method: http.MethodPost, URL: l.urls[int(i)%len(l.urls)], Header: bareHeader(),
					Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
				}
				if l.signs {
					req.Header.Set(websub.HeaderSignature, websub.SHA256.Sign(strconv.FormatInt(i, 10), body))
				}
				resp, err := l.transport.RoundTrip(req)
				if err != nil {
					panic(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

// postLoop makes only the POSTs, over the connections that the hub uses.
type postLoop struct {
	pool    *post.Pool
	urls    []string
	workers int
}

func newPostLoop(hosts []string, s shape) *postLoop {
	d, secure := new(net.Dialer), &tls.Dialer{Config: trustAll}
	l := &postLoop{workers: s.workers, pool: post.NewPool(post.Options{
		Dial: d.DialContext, DialTLS: secure.DialContext, PerHost: perHost, Idle: 1024, IdleTimeout: time.Minute,
	})}
	for _, h := range hosts {
		l.urls = append(l.urls, h+after(s.answers)+"bare")
	}
	return l
}

func (l *postLoop) post(n int, body []byte) {
	var fields []post.Field
	for name, values := range bareHeader() {
		fields = append(fields, post.Field{Name: name, Value: values[0]})
	}
	head := post.NewHead(fields...)
	ctx, end := post.NewScope(context.Background())
	defer end(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range l.workers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				_, err := l.pool.Post(ctx, &post.Request{
					URL: l.urls[int(i)%len(l.urls)], Head: head, Body: body,
					Stall: time.Minute, Whole: time.Minute, Rest: time.Second, Read: 4 << 10,
				})
				if err != nil {
					panic(err)
				}
			}
		})
	}
	wg.Wait()
}
