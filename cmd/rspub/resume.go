package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/nearest"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/websub"
)

// scanPoll is how often rspub checks whether the folders have been scanned.
const scanPoll = time.Second

// acceptDeletions publishes missing resources of each set as deleted, after its first scan
// (--accept-deletions).
func (f *serveFlags) acceptDeletions(ctx context.Context, s *source.Source, log *slog.Logger) {
	if !f.accept {
		return
	}
	eachSet(ctx, s, func(x *source.SetStatus) bool { return !x.Folder.Scanned.IsZero() }, func(set string) {
		log := log
		if set != "" {
			log = log.With("set", set)
		}
		log.Info("missing resources are published as deleted, because of --accept-deletions", "event", "deletions_accepted", "resources", s.AcceptDeletions(set))
	})
}

// resumeFlags let stopped hubs go on. The first of each are about the same topic at a hub, and so on.
type resumeFlags struct {
	hubs, topics, froms []string
	all                 []resumed // what they say
}

// resumed is a topic that goes on at a hub.
type resumed struct {
	hub   string
	topic string    // empty: the changes of the only set
	from  time.Time // zero: where it stopped
}

func (f *resumeFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.hubs, "resume", nil, "publish again to this `HUB`, which is stopped because it and this Source disagree about what it has; repeatable, with a --resume-topic and a --resume-from for each in the same order. If it is given once, it is for all of these")
	flags.StringArrayVar(&f.topics, "resume-topic", nil, "`TOPIC` for which --resume applies (default: the changes of the only set); repeatable")
	flags.StringArrayVar(&f.froms, "resume-from", nil, "`DATETIME` at which the next interval for the --resume hub begins (default, or if it is empty: where it stopped); repeatable")
}

// read reads the values.
func (f *resumeFlags) read(severalSets bool) error {
	for _, all := range []*[]string{&f.hubs, &f.topics, &f.froms} {
		if !slices.ContainsFunc(*all, func(value string) bool { return value != "" }) {
			*all = nil // as from a variable that is not set
		}
	}
	n := max(len(f.hubs), len(f.topics), len(f.froms))
	if len(f.hubs) == 0 && n > 0 {
		return cli.Fail(cli.ExitUsage, "--resume-topic and --resume-from are about a hub: name it with --resume")
	}
	if k := len(f.hubs); k > 1 && k < n {
		return unequal("--resume", k, n)
	}
	if k := len(f.topics); k > 0 && k < n {
		return unequal("--resume-topic", k, n)
	}
	if k := len(f.froms); k > 0 && k < n {
		return unequal("--resume-from", k, n)
	}
	f.all = make([]resumed, n)
	for i := range f.all {
		r := resumed{hub: f.hubs[min(i, len(f.hubs)-1)]}
		if len(f.topics) > 0 {
			r.topic = f.topics[i]
		}
		if severalSets && r.topic == "" {
			return cli.Fail(cli.ExitUsage, "there are several sets, so --resume-topic must name the topic to resume")
		}
		if len(f.froms) > 0 && f.froms[i] != "" {
			var err error
			if r.from, err = datetime("--resume-from", f.froms[i]); err != nil {
				return err
			}
		}
		f.all[i] = r
	}
	return nil
}

func unequal(name string, k, n int) error {
	return cli.Fail(cli.ExitUsage, "%s is given %d times, and another flag of --resume %d times: give one for each topic, in the same order", name, k, n)
}

// check completes what read has read with the topics of the Source. It refuses other topics, and hubs of
// other sets.
func (f *resumeFlags) check(s *source.Source) error {
	topics := s.Topics()
	for i := range f.all {
		r := &f.all[i]
		if r.topic == "" {
			r.topic = topics[0]
		}
		switch {
		case !slices.Contains(topics, r.topic):
			return cli.Fail(cli.ExitUsage, "--resume-topic %s is not a topic of this Source: these are %s%s", cli.Line(r.topic), strings.Join(topics, ", "), nearest.DidYouMean(r.topic, topics))
		case !websub.HasHub(s.Hubs(r.topic), r.hub):
			return cli.Fail(cli.ExitUsage, "--resume %s is not a hub of %s", cli.Line(r.hub), r.topic)
		}
	}
	return nil
}

// run lets the hubs go on.
func (f *resumeFlags) run(ctx context.Context, s *source.Source, log *slog.Logger) {
	for _, r := range f.all {
		log := log.With("topic", r.topic, "hub", r.hub)
		err := s.Resume(ctx, r.topic, r.hub, r.from)
		if err != nil && ctx.Err() == nil {
			log.Error("the hub cannot continue", "event", "resume_failed", "error", err)
		}
		if err == nil {
			log.Info("the hub continues, because of --resume", "event", "resumed")
		}
	}
}

// resumeWith returns the flags with which a topic goes on at a hub that refused an interval, which began at refused.
// Expected is where the hub expects the next interval, if it says so.
func resumeWith(topic, hub string, refused, expected time.Time) string {
	flags := fmt.Sprintf("--resume %s --resume-topic %s", hub, topic)
	switch {
	case expected.IsZero():
		return flags + " --resume-from DATETIME"
	case expected.After(refused):
		return flags + " --resume-from " + expected.UTC().Format(time.RFC3339Nano)
	}
	return flags // after a reset
}

// stoppedText says why a hub has stopped, and with which flags it goes on.
func stoppedText(topic string, h *publisher.HubStatus) string {
	if h.Stopped == "" {
		return h.LastError
	}
	return h.Stopped + adviceStart + resumeWith(topic, h.URL, h.Refused, h.Expected)
}

const adviceStart = " To resume, start rspub again with "

// advised adds to the lines about a hub that has stopped the flags with which it goes on. The packages that write
// these lines do not know the flags.
type advised struct {
	slog.Handler
	with []slog.Attr
}

// WithAttrs implements slog.Handler.
func (h advised) WithAttrs(attrs []slog.Attr) slog.Handler {
	return advised{h.Handler.WithAttrs(attrs), append(slices.Clip(h.with), attrs...)}
}

// WithGroup implements slog.Handler.
func (h advised) WithGroup(name string) slog.Handler {
	return advised{h.Handler.WithGroup(name), h.with}
}

// Handle implements slog.Handler.
func (h advised) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		text, at := map[string]string{}, map[string]time.Time{}
		see := func(a slog.Attr) bool {
			if v := a.Value.Resolve(); v.Kind() == slog.KindTime {
				at[a.Key] = v.Time()
			} else if v.Kind() == slog.KindString {
				text[a.Key] = v.String()
			}
			return true
		}
		for _, a := range h.with {
			see(a)
		}
		if r.Attrs(see); text["event"] == "hub_stopped" || text["event"] == "hub_left_behind" {
			r = r.Clone()
			r.Message = strings.TrimSuffix(r.Message, ".") + "." + adviceStart + resumeWith(text["topic"], text["hub"], at["from"], at["expected"])
		}
	}
	return h.Handler.Handle(ctx, r)
}
