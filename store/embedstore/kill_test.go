package embedstore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// childEnv makes the test binary a process that writes to the folder in it.
const childEnv = "RSHUB_TEST_STORE"

// killTopics is how many topics the child writes to at once.
const killTopics = 6

// killIDs are the subscriptions whose cursors the child moves, one per topic.
func killSubscription(i int) subscriptions.Subscription {
	name := killTopic(i)
	return subscriptions.Subscription{ID: subscriptions.ID(name, "https://subscriber.example/"), Topic: name, Callback: "https://subscriber.example/", Cursor: journal.Cursor{Generation: 1}}
}

func killTopic(i int) string { return fmt.Sprint(topic, i) }

// killBody is the body of the entry with this seq. Every fifth is a file.
func killBody(i int, seq uint64) []byte {
	body := fmt.Appendf(nil, "topic %d entry %d ", i, seq)
	if seq%5 == 0 {
		body = append(body, make([]byte, inlineMax)...)
	}
	return body
}

// ack is one line that the child prints when the store said that something is
// durable.
type ack struct {
	Topic     int
	Seq       uint64 // of an append
	ID        string
	Committed uint64 // the seq of a cursor
	Trimmed   uint64 // the seq up to which entries may be gone: printed before the trim
}

// child appends, commits and trims until it is killed.
func child(dir string) int {
	s, err := Open(dir, Options{MinFree: -1})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(a ack) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(a) // unbuffered: printed is printed
	}
	var group sync.WaitGroup
	for i := range killTopics {
		group.Go(func() {
			if err := childTopic(s, i, say); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		})
	}
	group.Wait()
	return 0
}

func childTopic(s *Store, i int, say func(ack)) error {
	ctx := context.Background()
	sub := killSubscription(i)
	_, err := s.Update(ctx, sub.ID, func(r subscriptions.Record) (subscriptions.Record, error) {
		if r.Subscription == nil {
			r.Subscription = &sub
		}
		return r, nil
	})
	for err == nil {
		h, headErr := s.Head(ctx, killTopic(i))
		if headErr != nil {
			return headErr
		}
		seq := h.Last.Seq + 1
		from := start.Add(time.Duration(seq) * time.Second)
		e := journal.Entry{From: from, Until: from.Add(time.Second), Kind: journal.KindChange, Body: killBody(i, seq)}
		if e, err = s.Append(ctx, from, killTopic(i), e, h.Version); err != nil {
			return err
		}
		say(ack{Topic: i, Seq: e.Seq, ID: e.ID.String()})
		c := journal.Cursor{Generation: 1, Anchor: e.Anchor()}
		if err = s.Commit(ctx, []subscriptions.Commit{{ID: sub.ID, Cursor: c}}); err != nil {
			return err
		}
		say(ack{Topic: i, Committed: e.Seq})
		if seq%20 == 0 {
			say(ack{Topic: i, Trimmed: seq - 10})
			_, err = s.Trim(ctx, killTopic(i), journal.Cut{Before: from.Add(-10*time.Second + 1), KeepBytes: -1})
		}
	}
	return err
}

// known is what the parent knows of one topic.
type known struct {
	seq, committed, trimmed uint64
	ids                     map[uint64]string
}

// HUB-52, invariants 1 and 2: a process that writes is killed at random moments, and
// whatever it was told to be durable is there.
func TestKilledWriterLosesNothing_Invariant1(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "data")
	topics := make([]known, killTopics)
	for i := range topics {
		topics[i].ids = map[uint64]string{}
	}
	rounds := 40
	if testing.Short() {
		rounds = 6
	}
	total := 0
	for range rounds {
		total += killRound(t, dir, topics, 1+rnd.IntN(120), time.Duration(rnd.IntN(2000))*time.Microsecond)
		checkKilled(t, dir, topics)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d acknowledgements in %d lives", total, rounds)
}

// killRound lets a child live for some acknowledgements and a moment, and
// collects what it said.
func killRound(t *testing.T, dir string, topics []known, after int, moment time.Duration) (n int) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a ack
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Errorf("the child says %q", lines.Text()) // or its last line was cut
			break
		}
		k := &topics[a.Topic]
		k.seq, k.committed, k.trimmed = max(k.seq, a.Seq), max(k.committed, a.Committed), max(k.trimmed, a.Trimmed)
		if a.Seq > 0 {
			k.ids[a.Seq] = a.ID
		}
		if n++; n == after {
			time.AfterFunc(moment, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // killed
	return n
}

// checkKilled opens the folder and compares it with what was acknowledged.
func checkKilled(t *testing.T, dir string, topics []known) {
	t.Helper()
	s, err := Open(dir, Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	large := 0
	for i, k := range topics {
		h, err := s.Head(t.Context(), killTopic(i))
		if err != nil {
			t.Fatal(err)
		}
		if h.Last.Seq < k.seq || h.Last.Seq > k.seq+1 {
			t.Errorf("topic %d ends at %d, acknowledged was %d", i, h.Last.Seq, k.seq)
		}
		if h.Trimmed.Seq > k.trimmed {
			t.Errorf("topic %d was trimmed to %d, asked for was %d", i, h.Trimmed.Seq, k.trimmed)
		}
		entries, err := s.Read(t.Context(), killTopic(i), h.Trimmed, 1<<20, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		if uint64(len(entries)) != h.Last.Seq-h.Trimmed.Seq || h.Entries != int64(len(entries)) {
			t.Errorf("topic %d has %d entries between %d and %d, and counts %d", i, len(entries), h.Trimmed.Seq, h.Last.Seq, h.Entries)
		}
		for j, e := range entries {
			if want := h.Trimmed.Seq + uint64(j) + 1; e.Seq != want || !bytes.Equal(e.Body, killBody(i, want)) {
				t.Errorf("topic %d: entry %d has seq %d and a body of %d bytes", i, want, e.Seq, len(e.Body))
			}
			if id := k.ids[e.Seq]; id != "" && id != e.ID.String() {
				t.Errorf("topic %d: entry %d is %v, acknowledged was %s", i, e.Seq, e.ID, id)
			}
			if name, found, err := s.Find(t.Context(), e.ID); err != nil || name != killTopic(i) || found.Seq != e.Seq {
				t.Errorf("topic %d: entry %d is not found by its id: %v", i, e.Seq, err)
			}
			if got, err := s.Interval(t.Context(), killTopic(i), e.From, e.Until); h.Last.Seq-e.Seq < journal.Remembered && (err != nil || got.ID != e.ID) {
				t.Errorf("topic %d: the interval of entry %d: %v", i, e.Seq, err)
			}
			if e.Size > inlineMax {
				large++
			}
		}
		if h.Last.Seq > 0 && !h.Until.Equal(start.Add(time.Duration(h.Last.Seq+1)*time.Second)) {
			t.Errorf("topic %d ends at seq %d and %v", i, h.Last.Seq, h.Until)
		}
		rec, err := s.Get(t.Context(), killSubscription(i).ID)
		if err != nil {
			t.Fatal(err)
		}
		if k.seq > 0 && (rec.Subscription == nil || rec.Subscription.Cursor.Seq < k.committed) {
			t.Errorf("topic %d: the cursor that was committed at %d is lost", i, k.committed)
		}
		topics[i].seq = h.Last.Seq // each life may end before it tells of its last
	}
	if n := files(t, dir); n != large {
		t.Errorf("%d files for %d large bodies", n, large)
	}
}
