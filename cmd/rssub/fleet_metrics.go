package main

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/engine/figures"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber/destination"
)

// memberStates are the states of a Source of --sources.
var memberStates = []string{destination.StateStarting, destination.StateFollowing, destination.StateFailed, destination.StateLeaving}

// newFleetMetrics returns the metrics of many Sources: the sums over all, and some of each.
func newFleetMetrics(server *cli.Server, f *copyFlags, s *sources) *metrics {
	m := newMetrics(server, f.minFree, newSourceFigures(s))
	m.sources = s
	m.of = watched{status: func() (all []destination.SetStatus, err error) {
		for _, st := range s.fleet.Status() {
			all = append(all, st.Sets...)
		}
		return all, nil
	}, dir: f.dir}
	return m
}

// ready returns the checks of GET /readyz. A Source that is away makes the program not unready.
func (s *sources) ready() []admin.Check {
	followed, troubled := 0, 0
	for _, m := range s.fleet.Status() {
		if m.Ready {
			followed++
		}
		if m.Trouble != "" {
			troubled++
		}
	}
	return []admin.Check{
		{Name: "state", Holds: "it can be written", Err: s.fleet.Ready()},
		{Name: "sources", Holds: fmt.Sprintf("%s, of which %d have a copy that is followed and %d have trouble; rssub status --sources shows which",
			quantity.Count(len(s.fleet.Members()), "Source", "Sources"), followed, troubled)},
	}
}

// sourceFigures are those of each Source, by its name. There are as many as the file names.
type sourceFigures struct {
	of       *sources
	file     *prometheus.Desc
	states   *prometheus.Desc
	figures  []*prometheus.Desc
	measures []func(*destination.MemberStatus) float64
}

func newSourceFigures(s *sources) *sourceFigures {
	f := &sourceFigures{
		of:     s,
		file:   prometheus.NewDesc("rssub_sources_file_right", "1 if the file of --sources had no mistakes when it was read last, else 0: then the Sources of before are followed.", nil, nil),
		states: prometheus.NewDesc("rssub_sources", "Sources of --sources by state; leaving: it is not in the file any more, and its subscriptions are being ended.", []string{"state"}, nil),
	}
	each := func(name, help string, value func(*destination.MemberStatus) float64) {
		f.figures = append(f.figures, prometheus.NewDesc(name, help, []string{"source"}, nil))
		f.measures = append(f.measures, value)
	}
	sum := func(of func(*destination.SetStatus) float64) func(*destination.MemberStatus) float64 {
		return func(m *destination.MemberStatus) (sum float64) {
			for i := range m.Sets {
				sum += of(&m.Sets[i])
			}
			return sum
		}
	}
	each("rssub_source_ready", "1 if the copy of a Source of --sources has a baseline of every set, else 0.", func(m *destination.MemberStatus) float64 { return figures.Truth(m.Ready) })
	each("rssub_source_troubled", "1 if a Source of --sources is away, wrong, or its copy has trouble, else 0.", func(m *destination.MemberStatus) float64 { return figures.Truth(m.Trouble != "") })
	each("rssub_source_lag_seconds", "For how long what a Source of --sources announced has waited to be carried out or repaired; 0: nothing waits.", func(m *destination.MemberStatus) (lag float64) {
		for _, s := range m.Sets {
			if !s.Behind.IsZero() {
				lag = max(lag, time.Since(s.Behind).Seconds())
			}
		}
		return lag
	})
	each("rssub_source_synced_timestamp_seconds", "When changes of a Source of --sources were last carried out since the start, of several sets the longest ago; 0: not yet.", func(m *destination.MemberStatus) float64 {
		var at time.Time
		for i, s := range m.Sets {
			if i == 0 || s.SyncedAt.Before(at) {
				at = s.SyncedAt
			}
		}
		return figures.Unix(at)
	})
	each("rssub_source_failed_resources", "Resources of a Source of --sources that are unavailable, and tried again.", sum(func(s *destination.SetStatus) float64 { return float64(s.Failed) }))
	each("rssub_source_deletions_held", "Files of a Source of --sources that it no longer has and --max-delete keeps.", sum(func(s *destination.SetStatus) float64 { return float64(s.DeletionsHeld) }))
	return f
}

// Describe implements prometheus.Collector.
func (f *sourceFigures) Describe(out chan<- *prometheus.Desc) {
	out <- f.file
	out <- f.states
	for _, d := range f.figures {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (f *sourceFigures) Collect(out chan<- prometheus.Metric) {
	all := f.of.fleet.Status()
	states := map[string]int{}
	for i := range all {
		m := &all[i]
		states[m.State]++
		for k, d := range f.figures {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, f.measures[k](m), m.Name)
		}
	}
	for _, state := range memberStates {
		out <- prometheus.MustNewConstMetric(f.states, prometheus.GaugeValue, float64(states[state]), state)
	}
	out <- prometheus.MustNewConstMetric(f.file, prometheus.GaugeValue, figures.Truth(!f.of.wrong.Load()))
}
