package subscriber

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// What is requested while the Change List is read may be about changes that came after that, so it is read again.
func TestRequestedDuringARepair_DST16(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		const once = 2 // a repair reads the list to find its place, and then to its end
		reads := 0
		l.page(labList, func(w http.ResponseWriter, _ *http.Request) {
			head := resourcesync.Head{Capability: resourcesync.ChangeList, From: l.from}
			if reads++; reads > once {
				l.write(w, head, l.changes(5, 15)...)
				return
			}
			l.write(w, head, l.changes(5)...)
			if reads == once {
				l.sub.repairer.catchUp(GapLease) // the list was composed before
			}
		})
		l.sub.repairer.catchUp(GapLease)
		l.after(time.Second)
		l.want("5 15")
		if reads != 2*once {
			l.Errorf("%d reads", reads)
		}
	})
}

// A repair that fails is tried again for the same reason.
func TestRequestOutlivesAFailure_DST16(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.page(labList, gone)
		l.sub.repairer.catchUp(GapLease)
		l.after(time.Second)
		l.want("")
		l.list(labList, 0, -1, 5)
		l.after(repairMax)
		l.want("5")
	})
}

// A notification that comes while its gap cannot be repaired makes a new baseline needless, and nobody hears of one.
func TestComesBeforeItIsGivenUp_DST16(t *testing.T) {
	var log bytes.Buffer
	subscribed(t, func(l *lab) { l.o.Log = slog.New(slog.NewTextHandler(&log, nil)) }, func(l *lab) {
		l.page(labList, func(w http.ResponseWriter, _ *http.Request) {
			l.pushed(10, 20, 15) //nolint:contextcheck // of another request
			l.write(w, resourcesync.Head{Capability: resourcesync.ChangeList, From: l.second(20)}, l.changes(25)...)
		})
		l.pushed(0, 10, 5)
		l.pushed(20, 30, 25)
		l.after(time.Minute)
		l.want("5 15 25")
		if strings.Contains(log.String(), "baseline_needed") {
			l.Error(log.String())
		}
		if got := l.gaps(); got != "missed repaired 10-20:0" {
			l.Error(got)
		}
	})
}

// Whether a gap of the stream is one of content, which nothing can repair, says the transaction that stores it.
func TestStreamGapAsItBegins(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Topic: labTopic, Via: ViaStream, Client: http.DefaultClient, StreamClient: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it was only read
	now := time.Now()
	writing, release := make(chan struct{}), make(chan struct{})
	begun := make(chan error, 1)
	go func() {
		begun <- s.inbox.db.Update(func(tx *boltfile.Tx) error {
			close(writing)
			<-release
			return s.inbox.advance(tx, tail{Until: now})
		})
	}()
	<-writing
	received := make(chan error, 1)
	go func() {
		received <- s.streamer.receive(t.Context(), &hubStream{topic: labTopic, hub: labHub}, &Notification{Topic: labTopic, Gap: gapRetention, From: now, Until: now.Add(time.Second)})
	}()
	time.Sleep(50 * time.Millisecond)
	close(release)
	if err := errors.Join(<-begun, <-received); err != nil {
		t.Fatal(err)
	}
	st, err := s.Status()
	if err != nil || st.Counts.Batches != 0 || len(st.Gaps) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if why := s.repairer.wanted.Load(); why == nil || *why != GapTold {
		t.Error("the Change Lists are not asked")
	}
}
