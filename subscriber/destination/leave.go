package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/subscriber"
)

const (
	leaveLook   = 100 * time.Millisecond
	leaveWithin = 2 * time.Minute // for the hub to verify that a subscription is ended
)

// streamDirs are the folders of the streams of the sets.
const streamDirs = "set-"

// streamsIn returns the folders of all streams in a folder of state.
func streamsIn(stateDir string) []string {
	return append(disk.Match(stateDir, streamDirs+"*"), disk.Match(stateDir, frameworkDirs+"*")...)
}

// Leave ends the subscriptions of the copy at their hubs, and waits until the hubs have
// verified that. It is for a copy that nobody follows any more. Handler has to be served
// meanwhile, and Follow must not run. It returns nil if no subscription is in force.
func (c *Copy) Leave(ctx context.Context) error {
	var err error
	for _, dir := range streamsIn(c.o.StateDir) {
		if failed := c.follower.leave(ctx, dir); failed != nil {
			err = errors.Join(err, fmt.Errorf("ending the subscription of %s: %w", readSetName(dir), failed))
		}
	}
	return err
}

// leave ends the subscriptions of the stream in a folder.
func (f *follower) leave(ctx context.Context, dir string) error {
	was, _ := subscriber.ReadStatus(dir) // what is asked for is in the state itself
	name := filepath.Base(dir)
	name = name[strings.LastIndexByte(name, '-')+1:]
	s, err := subscriber.Open(subscriber.Options{Dir: dir, Topic: cmp.Or(was.Topic, f.o.Source), Callback: f.o.callbackOf(name), Client: f.syncer.source.web, Log: f.log})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if !inForce(s) {
		return nil
	}
	if f.o.Callback == "" {
		f.log.Warn("no hub can call this Destination to verify that a subscription is ended, so it lasts until its lease ends", "event", "unsubscribe_failed", "set", readSetName(dir))
		return nil
	}
	f.handlers.set(name, &stream{readSetName(dir), s})
	defer f.handlers.set(name, nil)
	if err := s.Unsubscribe(ctx); err != nil {
		return err
	}
	for end := time.Now().Add(leaveWithin); inForce(s); {
		if time.Now().After(end) {
			return errors.New("the hub accepted the request, and did not verify it")
		}
		if !clock.Sleep(ctx, leaveLook) {
			return ctx.Err()
		}
	}
	return nil
}

// callbackOf returns the callback below which a stream has its own; empty: no hub calls it.
func (o *Options) callbackOf(name string) string {
	if o.Callback == "" {
		return ""
	}
	return strings.TrimSuffix(o.Callback, "/") + "/" + name
}

// inForce reports whether a hub calls the callback of a subscriber.
func inForce(s *subscriber.Subscriber) bool {
	st, err := s.Status()
	return err == nil && slices.ContainsFunc(st.Subscriptions, func(sub subscriber.SubscriptionStatus) bool { return sub.State == "active" })
}

// isPushed reports whether the changes of a subscriber come by themselves.
func isPushed(s *subscriber.Subscriber) bool {
	st, err := s.Status()
	return err == nil && (st.Stream != nil && st.Stream.State == subscriber.StreamOpen || st.Way == subscriber.ViaCallback && inForce(s))
}
