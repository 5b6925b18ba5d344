package publisher_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/test/ports"
)

// childEnv makes the test binary a process that publishes until it is killed.
const childEnv = "RSHUB_TEST_PUBLISHER"

func TestMain(m *testing.M) {
	if order := os.Getenv(childEnv); order != "" {
		if err := child(order); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// order is what a child is told.
type order struct {
	Dir, Addr string
	Hubs      []string
	Last      bool // nothing more is recorded; end when the hubs have all
}

func (o order) topic() string { return "http://" + o.Addr + "/changes/" }

// loc is the resource of a change. Every seventh is so long that its interval is
// likely to be a file.
func (o order) loc(seq int) string {
	loc := fmt.Sprintf("http://%s/data/%d", o.Addr, seq)
	if seq%7 == 0 {
		loc += "/" + strings.Repeat("x", 1900)
	}
	return loc
}

// child publishes change after change and tells what was recorded.
func child(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	options := publisher.Options{Dir: o.Dir, Topic: o.topic(), Every: 3 * time.Millisecond, MaxEntries: 200}
	for _, hub := range o.Hubs {
		options.Hubs = append(options.Hubs, publisher.Hub{URL: hub})
	}
	p, err := publisher.Open(options)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, p.Handler()) }() // ends with the process
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	if o.Last {
		if err := p.Flush(ctx); err != nil {
			return err
		}
		fmt.Println(p.Recorded())
		return nil
	}
	for {
		first := p.Recorded() + 1
		if first > 3 {
			first -= 3 // a feeder that does not know how far it got
		}
		var changes []publisher.Change
		for seq := first; seq < first+3+uint64(rand.IntN(40)); seq++ {
			changes = append(changes, publisher.Change{Seq: seq, Entry: resourcesync.Entry{Loc: o.loc(int(seq)), Change: resourcesync.Updated}})
		}
		if err := p.Record(ctx, changes...); err != nil {
			return err
		}
		fmt.Println(p.Recorded()) // unbuffered: printed is printed
		select {
		case err := <-ran:
			return fmt.Errorf("it ran to an end: %w", err)
		default:
		}
	}
}

// SRC-08, SRC-09: a publisher is killed at random points of recording, cutting,
// posting and acknowledging; the journals of two real hubs have consecutive
// intervals and every change exactly once.
func TestKilledPublisherSkipsAndRepeatsNothing_SRC09(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	o := order{Dir: filepath.Join(t.TempDir(), "outbox"), Addr: ports.Addr()}
	recorded := 0
	t.Run("lives", func(t *testing.T) { // the hubs stop at its end
		for _, dir := range dirs {
			hub := startHub(t, dir, "--dev", "--publish-auth=content,token", "--topic-check=require")
			o.Hubs = append(o.Hubs, hub.HubURL())
		}
		lives := 60
		if testing.Short() {
			lives = 8
		}
		for n := range lives {
			before := recorded
			recorded = live(t, o, before, rnd.IntN(25), time.Duration(rnd.IntN(20_000))*time.Microsecond)
			if recorded < before {
				t.Fatalf("life %d recorded up to %d, the one before up to %d", n, recorded, before)
			}
		}
		o.Last = true
		if last := live(t, o, recorded, -1, 0); last < recorded {
			t.Fatalf("%d changes are there, %d were recorded", last, recorded)
		} else {
			recorded = last
		}
		t.Logf("%d changes in %d lives", recorded, lives)
	})
	for _, dir := range dirs {
		t.Logf("%d intervals", checkHub(t, dir, o, recorded))
	}
}

// live lets a child live until it said so many lines, and a moment longer; with
// after < 0 until it ends by itself. It returns the last thing that it said.
func live(t *testing.T, o order, said, after int, moment time.Duration) int {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { time.AfterFunc(moment, func() { _ = cmd.Process.Kill() }) }
	if after == 0 {
		kill()
	}
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		if _, err := fmt.Sscan(lines.Text(), &said); err != nil {
			t.Errorf("the child says %q", lines.Text())
		}
		if n == after {
			kill()
		}
	}
	if err := cmd.Wait(); err != nil && after < 0 {
		t.Error(err)
	}
	return said
}

// checkHub looks at what a hub has that was stopped.
func checkHub(t *testing.T, dir string, o order, recorded int) (intervals int) {
	t.Helper()
	store, err := embedstore.Open(dir, embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	entries, err := store.Read(t.Context(), o.topic(), journal.Anchor{}, 1<<20, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	next := 1
	for n, e := range entries {
		if n > 0 && !e.From.Equal(entries[n-1].Until) {
			t.Errorf("interval %d begins at %v, and the one before ends at %v", n, e.From, entries[n-1].Until)
		}
		r := resourcesync.NewNotificationReader(bytes.NewReader(e.Body), resourcesync.Limits{})
		for {
			c, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Loc != o.loc(next) {
				t.Fatalf("in interval %d comes %.60s, want %.60s", n, c.Loc, o.loc(next))
			}
			next++
		}
	}
	if next-1 != recorded {
		t.Errorf("%d changes arrived, %d were recorded", next-1, recorded)
	}
	return len(entries)
}
