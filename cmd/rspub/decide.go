package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/rshub/rshub/publisher/source"
)

// scanPoll is how often it is looked whether the folders have been scanned.
const scanPoll = time.Second

// letGo lets go what is gone, once all folders have been looked at
// (--accept-deletions).
func (f *serveFlags) letGo(ctx context.Context, s *source.Source, log *slog.Logger) {
	for f.accept && !scanned(s) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(scanPoll):
		}
	}
	if f.accept {
		log.Info("what is gone is published as deleted, as --accept-deletions says", "event", "deletions_accepted", "resources", s.AcceptDeletions())
	}
}

// scanned reports whether all folders have been looked at.
func scanned(s *source.Source) bool {
	for _, x := range s.Status().Sets {
		if x.Folder.Scanned.IsZero() && x.Folder.Err == nil {
			return false
		}
	}
	return true
}

// goOn has a hub go on that stopped (--resume).
func (f *serveFlags) goOn(ctx context.Context, s *source.Source, log *slog.Logger) {
	if f.resume == "" {
		return
	}
	topic := f.resumeTopic
	if topics := s.Topics(); topic == "" && len(topics) > 0 {
		topic = topics[0]
	}
	err := s.Resume(ctx, topic, f.resume, f.from)
	if err != nil && ctx.Err() == nil {
		log.Error("the hub can't go on", "event", "resume_failed", "topic", topic, "hub", f.resume, "error", err)
	}
	if err == nil {
		log.Info("the hub goes on, as --resume says", "event", "resumed", "topic", topic, "hub", f.resume)
	}
}
