package destination

import (
	"context"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// frameworkDirs are the folders of the streams of framework notifications.
const frameworkDirs = "framework-"

// frameworkRest is the least time between two readings that notifications ask for.
const frameworkRest = time.Second

// followFramework receives the framework notifications of a set until ctx ends, by callback or by
// the hub's stream. One about a
// Capability List or the Source Description has the sets of the Source read, and one about
// another document the Change List; if there is none, or a baseline is needed, notified. A
// document is read at the address that the Capability List names: a notification alone leads
// nowhere.
func (f *follower) followFramework(ctx context.Context, set namedSet, changes *subscriber.Subscriber, notified chan<- struct{}) {
	name := digest("framework "+set.name, 8)
	via := f.o.Via
	if f.o.Callback == "" {
		via = subscriber.ViaStream // nothing lists these notifications, so they cannot be polled
	}
	s, err := subscriber.Open(subscriber.Options{
		Dir: filepath.Join(f.o.StateDir, frameworkDirs+name), Topic: set.Framework, Hubs: set.FrameworkHubs, Hub: f.o.Hub,
		Callback: f.o.callbackOf(name), Via: via, InsecureStream: f.o.InsecureStream, Lease: f.o.Lease, InsecureSecret: f.o.InsecureSecret, MinSignature: f.o.MinSignature,
		CheckEvery: -1, HoldFor: f.o.HoldFor, Look: func() {}, // no list repeats these notifications
		Client: f.syncer.source.web, StreamClient: hubs{f.syncer.source.web}, Log: f.log,
	})
	if err != nil {
		f.log.Warn("framework notifications cannot be received; the documents are read as often as without them", "event", "framework_failed", "set", set.name, "error", err)
		return
	}
	defer func() { _ = s.Close() }()
	if err := nameSet(filepath.Join(f.o.StateDir, frameworkDirs+name), set.name); err != nil {
		f.log.Warn("the status of the framework notifications will lack the name of the set", "event", "framework_failed", "set", set.name, "error", err)
	}
	f.handlers.setNamed(name, &stream{set.name, s})
	defer f.handlers.setNamed(name, nil)
	ended := make(chan struct{})
	defer func() { <-ended }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { defer close(ended); _ = s.Run(ctx) }()
	for change := range s.Changes(ctx) {
		f.log.Info("the Source has a new document, which is read", "event", "framework_notification", "set", set.name, "capability", change.Capability, "document", change.Loc)
		switch {
		case change.Capability == resourcesync.CapabilityList || change.Capability == resourcesync.Description:
			signal(f.again)
		case set.offers(resourcesync.ChangeList) && !f.syncer.needsBaseline(set, f.syncer.state.set(set.name)):
			if err := changes.CatchUp(ctx); err != nil && ctx.Err() == nil {
				f.log.Warn("the Change List could not be read; it is read again later", "event", "framework_failed", "set", set.name, "error", err)
			}
		default:
			signal(notified)
		}
		if err := s.Commit(change.Cursor); err != nil {
			f.log.Warn("a framework notification could not be marked as read", "event", "framework_failed", "set", set.name, "error", err)
		}
		clock.Sleep(ctx, frameworkRest)
	}
}

// signal makes a channel ready, unless it is.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// readNamed reads what a framework notification can have named where there is no Change List to
// read: the baseline that is needed, or the changes.
func (f *follower) readNamed(ctx context.Context, set namedSet) {
	if f.syncer.needsBaseline(set, f.syncer.state.set(set.name)) {
		_, _ = f.baselineOf(ctx, set) // it logs the result
		return
	}
	f.syncNow(ctx, set)
}
