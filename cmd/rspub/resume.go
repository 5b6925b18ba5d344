package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/publisher/source"
)

// scanPoll is how often rspub checks whether the folders have been scanned.
const scanPoll = time.Second

// acceptDeletions publishes missing resources as deleted, after all folders were scanned
// (--accept-deletions).
func (f *serveFlags) acceptDeletions(ctx context.Context, s *source.Source, log *slog.Logger) {
	for f.accept && !scanned(s) {
		if !clock.Sleep(ctx, scanPoll) {
			return
		}
	}
	if f.accept {
		log.Info("missing resources are published as deleted, because of --accept-deletions", "event", "deletions_accepted", "resources", s.AcceptDeletions())
	}
}

// scanned reports whether all folders have been scanned.
func scanned(s *source.Source) bool {
	for _, x := range s.Status().Sets {
		if x.Folder.Scanned.IsZero() && x.Folder.Err == nil {
			return false
		}
	}
	return true
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
