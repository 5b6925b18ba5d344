package telemetry

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

// machine holds what the process, Go's runtime and the store's medium tell, as text.
type machine struct {
	registry *prometheus.Registry
	text     *atomic.Pointer[[]byte]
}

func newMachine(space func() (free, least int64, ok bool)) machine {
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
	if space != nil {
		m.registry.MustRegister(medium(space))
	}
	m.look()
	return m
}

// medium collects how much room a store has.
type medium func() (free, least int64, ok bool)

var (
	freeBytes  = prometheus.NewDesc("rshub_store_free_bytes", "Free bytes on the disk of the data folder, or of the maxmemory of Redis.", nil, nil)
	leastBytes = prometheus.NewDesc("rshub_store_free_min_bytes", "With fewer free bytes the hub stores nothing new: publishes and subscription requests get 503.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m medium) Describe(out chan<- *prometheus.Desc) {
	out <- freeBytes
	out <- leastBytes
}

// Collect implements prometheus.Collector.
func (m medium) Collect(out chan<- prometheus.Metric) {
	if free, least, ok := m(); ok {
		out <- prometheus.MustNewConstMetric(freeBytes, prometheus.GaugeValue, float64(free))
		out <- prometheus.MustNewConstMetric(leastBytes, prometheus.GaugeValue, float64(least))
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
func (m *Metrics) Run(ctx context.Context) error {
	tick := time.NewTicker(machineEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.machine.look()
		}
	}
}
