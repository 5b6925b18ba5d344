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

// machineEvery is how old what the process and Go's runtime tell may be. Asking
// them takes longer than all the rest of a scrape, as some of it is read from
// /proc.
const machineEvery = 5 * time.Second

// machine holds what the process, Go's runtime and other slow collectors tell, as text.
type machine struct {
	registry *prometheus.Registry
	text     *atomic.Pointer[[]byte]
}

func newMachine(slow []prometheus.Collector) machine {
	m := machine{registry: prometheus.NewRegistry(), text: new(atomic.Pointer[[]byte])}
	m.registry.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		// Of Go's runtime what an operator can use: memory and its collection,
		// goroutines, processors.
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

// look asks anew.
func (m *machine) look() {
	var text bytes.Buffer
	families, _ := m.registry.Gather() // what can't be read is left out
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(&text, f) // a Buffer takes all
	}
	b := text.Bytes()
	m.text.Store(&b)
}

// Run keeps what a scrape shows of the process and of Go's runtime fresh until
// ctx ends; that is some seconds old, all else is of the moment. It returns nil.
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
