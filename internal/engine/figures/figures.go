package figures

import (
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Set is the metrics of a process. Register them, call Seal, and serve Handler. Counting is
// possible from many goroutines, never waits, and allocates nothing.
type Set struct {
	registry *prometheus.Registry
	live     map[string][]prometheus.Metric // of registry, by name
	machine  machine
	page     page // what registry holds, as text
	scraping sync.Mutex
}

// New returns a Set with the build of a program: name is the prefix of all its metrics, such
// as rshub, and it runs as what, for people.
func New(name, what, version string) *Set {
	s := &Set{registry: prometheus.NewRegistry(), live: make(map[string][]prometheus.Metric)}
	s.Gauge(name+"_build_info", "Always 1; the labels are this "+what+"'s version and build.",
		prometheus.Labels{"version": version, "goversion": runtime.Version()}, func() float64 { return 1 })
	return s
}

// Seal ends the registration. The collectors, and the metrics of the process and of Go's runtime,
// may be slow, so they are read only every few seconds.
func (s *Set) Seal(slow ...prometheus.Collector) {
	s.page = newPage(s.registry, s.live)
	s.machine = newMachine(slow)
}

// Gatherers returns the registries, for tests.
func (s *Set) Gatherers() []prometheus.Gatherer {
	return []prometheus.Gatherer{s.registry, s.machine.registry}
}

// Register adds a collector whose metrics all exist already.
func (s *Set) Register(name string, c prometheus.Collector) {
	s.registry.MustRegister(c)
	found := make(chan prometheus.Metric)
	go func() {
		defer close(found)
		c.Collect(found)
	}()
	for metric := range found {
		s.live[name] = append(s.live[name], metric)
	}
}

// Counters are the counters of a family by the value of their label.
type Counters[L ~string] map[L]prometheus.Counter

// One adds one to the counter of a label value. It ignores an unknown value; tests make sure that
// there is none.
func (c Counters[L]) One(label L) { c.Add(label, 1) }

// Add counts several, as One does.
func (c Counters[L]) Add(label L, n int) {
	if counter, ok := c[label]; ok {
		counter.Add(float64(n))
	}
}

// Family registers counters that differ in one label.
func Family[L ~string](s *Set, name, help, label string, values ...L) Counters[L] {
	return FamilyOf(s, name, help, label, nil, values...)
}

// FamilyOf is Family with labels that all of them have.
func FamilyOf[L ~string](s *Set, name, help, label string, fixed prometheus.Labels, values ...L) Counters[L] {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: fixed}, []string{label})
	out := make(Counters[L], len(values))
	for _, v := range values {
		out[v] = vec.WithLabelValues(string(v))
	}
	s.Register(name, vec)
	return out
}

// Counter registers a counter without labels.
func (s *Set) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	s.Register(name, c)
	return c
}

// Histogram registers a histogram without labels.
func (s *Set) Histogram(name, help string, buckets ...float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	s.Register(name, h)
	return h
}

// Gauge registers a metric of the present state. Value is read when a scrape is written.
func (s *Set) Gauge(name, help string, labels prometheus.Labels, value func() float64) {
	s.Register(name, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

// Count registers a counter whose value is elsewhere. Value is read when a scrape is written.
func (s *Set) Count(name, help string, labels prometheus.Labels, value func() float64) {
	s.Register(name, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

// Number is the value of a gauge that counts.
func Number[N int | int64 | uint64](n *N) func() float64 {
	return func() float64 { return float64(*n) }
}

// Seconds is the value of a gauge that is a time span.
func Seconds(d *time.Duration) func() float64 { return func() float64 { return d.Seconds() } }

// At is the value of a gauge that is a time.
func At(t *time.Time) func() float64 { return func() float64 { return Unix(*t) } }

// Handler answers a scrape, in Prometheus's text format whatever the request accepts. Before
// each answer it calls look, which refreshes what the gauges read. It writes one answer at a time.
func (s *Set) Handler(look func()) http.Handler {
	buffers := sync.Pool{New: func() any { return new([]byte) }}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		buffer, _ := buffers.Get().(*[]byte)
		defer buffers.Put(buffer)
		s.scraping.Lock()
		defer s.scraping.Unlock()
		look()
		*buffer = append(s.page.append((*buffer)[:0]), *s.machine.text.Load()...)
		w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		w.Header().Set("Content-Length", strconv.Itoa(len(*buffer)))
		_, _ = w.Write(*buffer) // a client that has gone does not read it
	})
}

// Truth is 1 or 0.
func Truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Unix is a time as a metric has it, in seconds; 0 for the zero Time.
func Unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
