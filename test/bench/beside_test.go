package bench

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/app"
)

const (
	besideCallbacks = 200
	besideStreams   = 2_000
	besidePairs     = 5
	besideTopics    = 20
	strangers       = 100
)

// latencies are how long what a source published was on its way. Each document has the time of its publish
// behind the mark.
type latencies struct {
	mu  sync.Mutex
	all []float64 // ms
	got atomic.Int64
}

func (l *latencies) add(document []byte) {
	_, rest, ok := bytes.Cut(document, []byte(mark))
	if !ok {
		return
	}
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	sent, err := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	if err != nil {
		return
	}
	took := float64(time.Now().UnixNano()-sent) / 1e6
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, took)
	l.got.Add(1)
}

// take returns the 99th percentile of what came since the last call.
func (l *latencies) take() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.all = nil }()
	if len(l.all) == 0 {
		return 0
	}
	slices.Sort(l.all)
	return l.all[len(l.all)*99/100]
}

// stamped publishes a notification that has the time in it.
func (s *source) stamped(b *testing.B) {
	b.Helper()
	s.comment = mark + strconv.FormatInt(time.Now().UnixNano(), 10)
	s.publish(b)
}

// called are callbacks of a topic in this process.
func called(b *testing.B, hub *app.App, topic string) *latencies {
	b.Helper()
	l := new(latencies)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		l.add(body)
	}))
	b.Cleanup(s.Close)
	for i := range besideCallbacks {
		subscribe(b, hub.HubURL(), topic, fmt.Sprintf("%s/%d", s.URL, i))
	}
	waitActive(b, hub)
	return l
}

// BenchmarkCallbacksAndStreams is the 99th percentile of the time from publish to callbacks at half of their
// full rate, and to streams with an event a second, both at once as a ratio to each alone: streams of one topic, all
// of which have their event at the same moment, and streams of several topics, whose events are spread over the second.
// Callbacks and readers are processes of their own on the same machine.
func BenchmarkCallbacksAndStreams(b *testing.B) {
	b.Run("topic", func(b *testing.B) { callbacksAndStreams(b, 1) })
	b.Run("topics", func(b *testing.B) { callbacksAndStreams(b, besideTopics) })
}

func callbacksAndStreams(b *testing.B, topics int) {
	hub, first, _ := streamed(b)
	readers, receivers := startReaders(b), startReceivers(b)
	streaming := make([]*source, topics)
	for i := range streaming {
		s := &source{topic: fmt.Sprint(first.topic, i), hub: first.hub, until: first.until}
		s.publish(b)
		readers.do(order{Open: besideStreams / topics, Addr: address(b, hub), Request: streamRequest(b, s), Stamped: true}, int64(besideStreams/topics))
		streaming[i] = s
	}
	src := &source{topic: hub.HubURL() + "called", hub: hub.HubURL(), until: first.until}
	src.publish(b)
	for i := range besideCallbacks {
		subscribe(b, hub.HubURL(), src.topic, fmt.Sprintf("%s%s%d", receivers.hosts[i%hosts], stamped, i))
	}
	waitActive(b, hub)
	const full = 50
	start := time.Now()
	for range full {
		src.stamped(b)
	}
	receivers.count(b, full*besideCallbacks)
	pace := 2 * time.Since(start) / full
	phase := func(calls, events bool) (ofCallbacks, ofStreams float64) {
		var all sync.WaitGroup
		begin := time.Now()
		end := begin.Add(5 * time.Second)
		run := func(s *source, next time.Time, pace time.Duration) {
			all.Go(func() {
				for ; next.Before(end); next = next.Add(pace) {
					time.Sleep(time.Until(next))
					s.stamped(b)
				}
			})
		}
		if calls {
			run(src, begin, pace)
		}
		for i, s := range streaming {
			if events {
				run(s, begin.Add(time.Duration(i)*time.Second/time.Duration(topics)), time.Second)
			}
		}
		all.Wait()
		time.Sleep(500 * time.Millisecond) // the last ones arrive
		return receivers.p99(b), readers.p99()
	}
	phase(true, true)
	for b.Loop() {
		var calls, events, callsAlone, eventsAlone []float64
		for range besidePairs {
			c, _ := phase(true, false)
			_, s := phase(false, true)
			callsAlone, eventsAlone = append(callsAlone, c), append(eventsAlone, s)
			c, s = phase(true, true)
			calls, events = append(calls, c), append(events, s)
		}
		b.ReportMetric(middle(calls)/middle(callsAlone), "x-callbacks-alone-p99")
		b.ReportMetric(middle(events)/middle(eventsAlone), "x-streams-alone-p99")
		b.ReportMetric(middle(callsAlone), "callbacks-alone-p99-ms")
		b.ReportMetric(middle(eventsAlone), "streams-alone-p99-ms")
		b.ReportMetric(float64(besideCallbacks)/pace.Seconds(), "deliveries/s")
	}
}

// middle is the median.
func middle(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// BenchmarkFanOutBesideStrangers is the rate of fan-out while strangers read the whole history of another
// topic again and again, as a ratio to the rate without them.
func BenchmarkFanOutBesideStrangers(b *testing.B) {
	hub := startHub(b, "--trusted-proxy=127.0.0.0/8", "--max-history=8")
	src := &source{topic: hub.HubURL() + "called", hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	src.publish(b)
	history := &source{topic: hub.HubURL() + "history", hub: hub.HubURL(), until: src.until, comment: strings.Repeat("q", 32<<10)}
	for range 320 { // 10 MiB
		history.publish(b)
	}
	callbacks := called(b, hub, src.topic)
	sample := func() float64 {
		start, before := time.Now(), callbacks.got.Load()
		const notifications = 250
		for range notifications {
			src.stamped(b)
		}
		for callbacks.got.Load() < before+notifications*besideCallbacks {
			time.Sleep(time.Millisecond)
		}
		return notifications * besideCallbacks / time.Since(start).Seconds()
	}
	var read, refused atomic.Int64
	beside := func() float64 {
		stop := make(chan struct{})
		var all sync.WaitGroup
		for i := range strangers {
			all.Go(func() { strange(b, hub, history.topic, i, stop, &read, &refused) })
		}
		defer func() { close(stop); all.Wait() }()
		time.Sleep(2 * time.Second) // they have had what they may have at once
		return sample()
	}
	sample()
	for b.Loop() {
		var ratios []float64
		for range besidePairs {
			alone := sample()
			ratios = append(ratios, beside()/alone)
		}
		b.ReportMetric(middle(ratios), "x-alone")
		b.ReportMetric(slices.Min(ratios), "x-min")
		b.ReportMetric(slices.Max(ratios), "x-max")
		b.ReportMetric(float64(read.Load())/(1<<20), "MiB-read")
		b.ReportMetric(float64(refused.Load()), "refused")
	}
}

// strange reads a history until stop, as a reader with an address of its own.
func strange(b *testing.B, hub *app.App, topic string, n int, stop chan struct{}, read, refused *atomic.Int64) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, hub.HubURL()+"?after=earliest&hub.topic="+url.QueryEscape(topic), nil)
		if err != nil {
			b.Error(err)
			return
		}
		req.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.%d.1", n))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		got, _ := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			refused.Add(1)
			time.Sleep(time.Second) // the least that the hub ever asks for
			continue
		}
		read.Add(got)
	}
}

// BenchmarkPublishBesideTakenStreams is the 99th percentile of a publish while strangers have all streams
// and ask for more, as a ratio to that without them.
func BenchmarkPublishBesideTakenStreams(b *testing.B) {
	hub, src, request := streamed(b, fmt.Sprintf("--max-streams=%d", besideStreams))
	other := &source{topic: hub.HubURL() + "other", hub: hub.HubURL(), until: src.until}
	r := startReaders(b)
	sample := func() float64 {
		var l latencies
		for range 500 {
			start := time.Now()
			other.publish(b)
			l.all = append(l.all, float64(time.Since(start).Microseconds())/1000)
		}
		return l.take()
	}
	taken := func() float64 {
		r.do(order{Open: besideStreams, Addr: address(b, hub), Request: request}, besideStreams)
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
				}
				if c, err := net.Dial("tcp", address(b, hub)); err == nil { //nolint:noctx // it is closed at once
					_, _ = c.Write(request)
					_, _ = c.Read(make([]byte, 1))
					_ = c.Close()
				}
			}
		})
		defer func() {
			close(stop)
			all.Wait()
			r.do(order{Close: true}, besideStreams)
			time.Sleep(time.Second)
		}()
		return sample()
	}
	sample()
	for b.Loop() {
		var ratios, alone []float64
		for range besidePairs {
			without := sample()
			alone, ratios = append(alone, without), append(ratios, taken()/without)
		}
		b.ReportMetric(middle(ratios), "x-without-p99")
		b.ReportMetric(slices.Min(ratios), "x-min")
		b.ReportMetric(slices.Max(ratios), "x-max")
		b.ReportMetric(middle(alone), "without-p99-ms")
	}
}
