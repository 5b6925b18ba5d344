package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/rshub/rshub/publisher/source"
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

// resumeHub lets a stopped hub continue (--resume).
func (f *serveFlags) resumeHub(ctx context.Context, s *source.Source, log *slog.Logger) {
	if f.resume == "" {
		return
	}
	topic := f.resumeTopic
	if topics := s.Topics(); topic == "" && len(topics) > 0 {
		topic = topics[0]
	}
	err := s.Resume(ctx, topic, f.resume, f.from)
	if err != nil && ctx.Err() == nil {
		log.Error("the hub cannot continue", "event", "resume_failed", "topic", topic, "hub", f.resume, "error", err)
	}
	if err == nil {
		log.Info("the hub continues, because of --resume", "event", "resumed", "topic", topic, "hub", f.resume)
	}
}
