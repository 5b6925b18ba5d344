package figures

import (
	"bytes"
	"context"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
)

// machineEvery is how old the metrics of the process and of Go's runtime may be. Reading them
// takes longer than the rest of a scrape, because some come from /proc.
const machineEvery = 5 * time.Second

// machine has the metrics of the process, of Go's runtime and of other slow collectors, as text.
type machine struct {
	registry *prometheus.Registry
	text     *atomic.Pointer[[]byte]
}

func newMachine(slow []prometheus.Collector) machine {
	m := machine{registry: prometheus.NewRegistry(), text: new(atomic.Pointer[[]byte])}
	m.registry.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		// An operator can use these of Go's runtime: memory and its collection, goroutines,
		// processors.
		collectors.NewGoCollector(
			collectors.WithGoCollectorMemStatsMetricsDisabled(),
			collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{
				Matcher: regexp.MustCompile(`^/(gc/heap/(live|goal):bytes|gc/gomemlimit:bytes|memory/classes/total:bytes|memory/classes/heap/(objects|released):bytes|cpu/classes/(gc/total|total):cpu-seconds|sched/gomaxprocs:threads)$`),
			}),
		),
	)
	m.registry.MustRegister(slow...)
	m.look()
	return m
}

// Space collects how much room there is on a disk, or in a store. Ask returns false if that
// is unknown; Free and Least are the names and explanations of the two metrics.
type Space struct {
	Ask         func() (free, least int64, ok bool)
	Free, Least *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s Space) Describe(out chan<- *prometheus.Desc) {
	out <- s.Free
	out <- s.Least
}

// Collect implements prometheus.Collector.
func (s Space) Collect(out chan<- prometheus.Metric) {
	if free, least, ok := s.Ask(); ok {
		out <- prometheus.MustNewConstMetric(s.Free, prometheus.GaugeValue, float64(free))
		out <- prometheus.MustNewConstMetric(s.Least, prometheus.GaugeValue, float64(least))
	}
}

// look reads the metrics anew.
func (m *machine) look() {
	var text bytes.Buffer
	families, _ := m.registry.Gather() // what can't be read is left out
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(&text, f) // writing to a Buffer never fails
	}
	b := text.Bytes()
	m.text.Store(&b)
}

// Run reads the metrics of the process and of Go's runtime every few seconds, until ctx ends. In
// a scrape these are some seconds old, and all others are current. It returns nil.
func (s *Set) Run(ctx context.Context) error {
	tick := time.NewTicker(machineEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.machine.look()
		}
	}
}
