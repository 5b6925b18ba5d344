package subscriber

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// What was not committed comes again after a restart, from the change on that follows
// the committed one; what was does not.
func TestCommit(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.pushed(0, 10, 1, 2, 3)
		l.pushed(10, 20, 11, 12)
		for round, want := range []string{"1 2 3 11 12", "2 3 11 12", "3 11 12", "11 12", "12", ""} {
			l.restart()
			got := ""
			var first *Change
			for c := range l.sub.Waiting(l.Context()) {
				if first == nil {
					first = &c
				}
				if last := strings.HasSuffix(l.name(&c), "3") || strings.HasSuffix(l.name(&c), "12"); c.Last != last || !c.From.Before(c.Until) {
					l.Errorf("%+v", c)
				}
				got = strings.TrimSpace(got + " " + l.name(&c))
			}
			if got != want {
				l.Errorf("round %d: %q, want %q", round, got, want)
			}
			if first == nil {
				break
			}
			if err := l.sub.Commit(first.Cursor); err != nil {
				l.Fatal(err)
			}
			if err := l.sub.Commit(Cursor{Batch: 1}); err != nil {
				l.Error("an older cursor:", err)
			}
			raw, _ := json.Marshal(first.Cursor) // it may be stored
			var back Cursor
			if err := json.Unmarshal(raw, &back); err != nil || back != first.Cursor {
				l.Errorf("%s", raw)
			}
			if now, err := l.sub.Committed(); err != nil || now != first.Cursor {
				l.Errorf("%v %v", now, err)
			}
		}
		if c := l.status().Counts; c.Batches != 0 || c.Backlog != 0 {
			l.Errorf("%+v", c)
		}
		if err := l.sub.Commit(Cursor{Batch: 99}); err == nil {
			l.Error("a cursor of nobody was committed")
		}
	})
}

// A range waits for what comes, and ends with its context, with Close, and when
// somebody ranges already; Err tells which.
func TestChangesEnd(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		ctx, cancel := context.WithCancel(l.Context())
		seen, ended := make(chan string), make(chan error)
		stream := func(ctx context.Context) {
			for c := range l.sub.Changes(ctx) {
				seen <- l.name(&c)
			}
			ended <- l.sub.Err()
		}
		go stream(ctx)
		synctest.Wait()
		for range l.sub.Changes(ctx) {
			l.Error("two ranges at once")
		}
		if err := l.sub.Err(); err == nil || !strings.Contains(err.Error(), "already") {
			l.Error(err)
		}
		l.pushed(0, 1, 0.5)
		if got := <-seen; got != "0.5" {
			l.Error(got)
		}
		cancel()
		if err := <-ended; err != nil {
			l.Error(err)
		}
		go stream(context.WithoutCancel(l.Context()))
		<-seen // again: it was not committed
		synctest.Wait()
		l.stop()
		if err := errors.Join(l.sub.Close(), l.sub.Close()); err != nil {
			l.Error("closing twice:", err)
		}
		if err := <-ended; !errors.Is(err, errClosed) {
			l.Error(err)
		}
		if got := l.push(1, 2); got != 503 {
			l.Errorf("after Close: %d", got)
		}
		if w := l.get(l.sub, l.form(0).Get("hub.callback"), "subscribe", labTopic, "x", 10); w.Code != 503 {
			l.Errorf("a verification after Close: %d", w.Code)
		}
		l.sub = nil
	})
}

// The folder is one Subscriber's, and one that is damaged or of a newer program is
// refused, with a word on what to do.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Topic: "https://source.example/"}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second one: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	newer := stateOptions(nil)
	newer.Format = 99
	file := filepath.Join(dir, "subscriber.db")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	db, err := boltfile.Open(file, newer)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "format 99") {
		t.Errorf("a newer one: %v", err)
	}
	if err := os.Truncate(file, 9000); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("one that is cut off: %v", err)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); err == nil {
		t.Error("one that is no database was opened")
	}
	for want, o := range map[string]Options{
		"Options.Dir is missing":       {Topic: "https://source.example/"},
		"Options.Topic is missing":     {Dir: dir},
		"Options.Callback has a query": {Dir: dir, Topic: "https://source.example/", Callback: "https://me.example/?x"},
		"Options.MaxHeld is negative":  {Dir: dir, Topic: "https://source.example/", MaxHeld: -1},
		"Options.MinSignature":         {Dir: dir, Topic: "https://source.example/", MinSignature: "md5"},
		"Options.Hub":                  {Dir: dir, Topic: "https://source.example/", Hub: "ftp://x/"},
	} {
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A change that fails takes those of its group back, and they are made again without
// it; the counts are those of what is on disk.
func TestGroupsAreUndone(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		var errs [5]error
		var group sync.WaitGroup
		release := make(chan struct{})
		group.Go(func() {
			_ = l.sub.inbox.db.Update(func(*tx) error { <-release; return nil })
		})
		synctest.Wait()
		for i := range errs {
			group.Go(func() {
				errs[i] = l.sub.inbox.update(func(tx *tx) error {
					if err := l.sub.inbox.append(tx, batch{Content: true}, []byte{byte('0' + i)}); err != nil || i == 3 {
						return errAway
					}
					return nil
				})
			})
			synctest.Wait() // each of them waits for the writer
		}
		close(release)
		group.Wait()
		if !errors.Is(errs[3], errAway) || errors.Join(errs[0], errs[1], errs[2], errs[4]) != nil {
			l.Errorf("%v", errs)
		}
		if c := l.status().Counts; c.Batches != 4 {
			l.Errorf("%+v", c)
		}
		l.want("0 1 2 4")
	})
}

// The status is in the file within seconds, and counts outlive the process.
func TestStatusFile(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.pushed(0, 1, 0.5)
		l.after(2 * statusEvery)
		st, err := ReadStatus(l.o.Dir)
		if err != nil || st.Counts.Received != 1 || st.Topic != labTopic || len(st.Subscriptions) != 1 || !st.Until.Equal(l.second(1)) {
			l.Errorf("%+v %v", st, err)
		}
		raw, _ := os.ReadFile(filepath.Join(l.o.Dir, statusFile))
		if secret := l.form(0).Get("hub.secret"); strings.Contains(string(raw), secret) || strings.Contains(string(raw), l.form(0).Get("hub.callback")) {
			l.Error("the status tells secrets")
		}
		l.restart()
		if got := l.status().Counts.Received; got != 1 {
			l.Errorf("%d", got)
		}
		time.Sleep(time.Second)
	})
	if _, err := ReadStatus(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
