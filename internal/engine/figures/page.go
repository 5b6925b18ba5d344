package figures

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// page writes the metrics of a registry as text. Prometheus's library writes them once. After
// that, page only replaces the values: names, labels and explanations are most of a scrape and
// never change. So nothing may be added to the registry any more.
type page struct {
	metrics []prometheus.Metric // in the order of their values
	texts   [][]byte            // before each value, and after the last
}

// newPage creates the page of a registry; live has its metrics by name. It panics if the two do
// not match.
func newPage(registry *prometheus.Registry, live map[string][]prometheus.Metric) page {
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	var p page
	var pending []byte
	holes := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			metric := find(live[f.GetName()], m)
			p.metrics = append(p.metrics, metric)
			holes += len(valuesOf(nil, metric))
		}
		var text bytes.Buffer
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			panic(err)
		}
		for line := range bytes.Lines(text.Bytes()) {
			if value := bytes.LastIndexByte(line, ' ') + 1; line[0] != '#' {
				p.texts = append(p.texts, slices.Concat(pending, line[:value]))
				pending, line = nil, []byte{'\n'}
			}
			pending = append(pending, line...)
		}
	}
	if p.texts = append(p.texts, pending); holes+1 != len(p.texts) {
		panic(fmt.Sprintf("%d values for the %d places of the page", holes, len(p.texts)-1))
	}
	return p
}

// find returns the metric with the labels of m.
func find(live []prometheus.Metric, m *dto.Metric) prometheus.Metric {
	for _, metric := range live {
		if got := read(metric); slices.EqualFunc(got.GetLabel(), m.GetLabel(), func(a, b *dto.LabelPair) bool {
			return a.GetName() == b.GetName() && a.GetValue() == b.GetValue()
		}) {
			return metric
		}
	}
	panic(fmt.Sprintf("no metric with the labels %v", m.GetLabel()))
}

func read(metric prometheus.Metric) *dto.Metric {
	var m dto.Metric
	if err := metric.Write(&m); err != nil {
		panic(err) // none of ours fails
	}
	return &m
}

// valuesOf appends the values of a metric, as the text has them.
func valuesOf(out []float64, metric prometheus.Metric) []float64 {
	m := read(metric)
	switch {
	case m.Counter != nil:
		return append(out, m.Counter.GetValue())
	case m.Gauge != nil:
		return append(out, m.Gauge.GetValue())
	}
	h := m.Histogram
	for _, b := range h.GetBucket() {
		out = append(out, float64(b.GetCumulativeCount()))
	}
	n := float64(h.GetSampleCount())
	return append(out, n, h.GetSampleSum(), n) // le="+Inf", sum, count
}

// append appends the page with the present values.
func (p *page) append(out []byte) []byte {
	var of [32]float64
	next := 0
	for _, metric := range p.metrics {
		for _, v := range valuesOf(of[:0], metric) {
			out = append(out, p.texts[next]...)
			out = strconv.AppendFloat(out, v, 'g', -1, 64)
			next++
		}
	}
	return append(out, p.texts[next]...)
}
