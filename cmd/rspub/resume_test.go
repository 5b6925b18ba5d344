package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
)

// Each topic goes on at its hub and from its time.
func TestResumeFlags(t *testing.T) {
	const hub, other, changes, framework, at = "https://a.example/", "https://b.example/", "https://s.example/changes/", "https://s.example/framework/", "2026-11-28T12:00:00Z"
	for _, c := range []struct {
		hubs, topics, froms []string
		several             bool
		want                []string // "hub topic from"
		wrong               string
	}{
		{},
		{hubs: []string{hub}, want: []string{hub + "  -"}},
		{hubs: []string{hub}, froms: []string{at}, want: []string{hub + "  " + at}},
		{hubs: []string{hub}, topics: []string{changes, framework}, froms: []string{"", at}, want: []string{hub + " " + changes + " -", hub + " " + framework + " " + at}},
		{hubs: []string{hub, other}, want: []string{hub + "  -", other + "  -"}},
		{hubs: []string{hub}, several: true, wrong: "--resume-topic must name"},
		{hubs: []string{""}, topics: []string{""}, froms: []string{"", ""}},
		{froms: []string{at}, wrong: "name it with --resume"},
		{hubs: []string{hub}, topics: []string{changes, framework}, froms: []string{at}, wrong: "--resume-from is given 1 times"},
		{hubs: []string{hub, other}, topics: []string{changes}, wrong: "--resume-topic is given 1 times"},
		{hubs: []string{hub, other}, topics: []string{changes, framework, framework}, wrong: "--resume is given 2 times"},
		{hubs: []string{hub}, froms: []string{"yesterday"}, wrong: "--resume-from"},
	} {
		f := resumeFlags{hubs: c.hubs, topics: c.topics, froms: c.froms}
		err := f.read(c.several)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		var got []string
		for _, r := range f.all {
			from := "-"
			if !r.from.IsZero() {
				from = r.from.Format(time.RFC3339)
			}
			got = append(got, fmt.Sprintf("%s %s %s", r.hub, r.topic, from))
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// The line about a hub that has stopped, and its readiness, have the flags with which it goes on; other lines are as
// they are.
func TestAdviceHasTheFlags(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(advised{Handler: slog.NewTextHandler(&b, nil)})
	from := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	stopped := func(expected time.Time) string {
		b.Reset()
		log.With("topic", "T", "hub", "H", "from", from).Error("it has stopped.", "event", "hub_stopped", "expected", expected)
		return b.String()
	}
	for want, expected := range map[string]time.Time{
		`it has stopped. To resume, start rspub again with --resume H --resume-topic T --resume-from 2026-11-28T12:00:01.5Z"`: from.Add(1500 * time.Millisecond),
		`with --resume H --resume-topic T"`:                        from.Add(-time.Second),
		`with --resume H --resume-topic T --resume-from DATETIME"`: {},
	} {
		if got := stopped(expected); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	b.Reset()
	log.Error("nothing is sent", "event", "hub_left_behind", "topic", "T", "hub", "H")
	log.Error("another", "event", "hub_reset", "topic", "T", "hub", "H")
	if got := b.String(); strings.Count(got, "--resume-from DATETIME") != 1 || strings.Count(got, "--resume ") != 1 {
		t.Errorf("got %s", got)
	}
	h := publisher.HubStatus{URL: "H", Stopped: "It is ahead.", Refused: from, Expected: from.Add(time.Second)}
	if got := stoppedText("T", &h); got != "It is ahead. To resume, start rspub again with --resume H --resume-topic T --resume-from 2026-11-28T12:00:01Z" {
		t.Error(got)
	}
	if got := stoppedText("T", &publisher.HubStatus{URL: "H", LastError: "no"}); got != "no" {
		t.Error(got)
	}
}
