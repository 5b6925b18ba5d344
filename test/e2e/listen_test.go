package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// A Source pushes through a hub, and a proxy that drops, doubles, delays and reorders, to rssub listen,
// which is killed 50 times. It prints every change of the Source's Change List, in order. Only a line
// whose commit a kill interrupted may be printed twice.
func TestListenMissesNothing(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 8))
	if *seedFlag != 0 {
		rnd = rand.New(rand.NewPCG(*seedFlag, 8))
	}
	h := startHub(t, "--retry-first", "50ms", "--retry-max", "300ms")
	folder, addr := t.TempDir(), ports.Addr()
	source := newProcess(t, "rspub", command("rspub"), "serve", "--dir", folder, "--listen", addr, "--public-url", "http://"+addr+"/", local,
		"--state-dir", t.TempDir(), "--hub", h.url(), "--settle", "20ms", "--every", "50ms", "--list-every", "off", "--log-format", "json")
	source.start()

	l := newListener(t, "--topic", "http://"+addr+"/changes/", "--hold-for", "300ms")
	m := newMischief(t, l.addr, rand.New(rand.NewPCG(rnd.Uint64(), 1)))
	l.args = append(l.args, "--callback-url", m.URL+"/cb")
	l.start()
	h.active(1)
	// The output begins with the first notification that arrives, so wait for one.
	m.quiet.Store(true)
	must(t, os.WriteFile(filepath.Join(folder, "the first one"), []byte("x"), 0o600))
	eventually(t, time.Minute, func() error {
		if len(l.all()) == 0 {
			return fmt.Errorf("the first change was not handed on\n%s", &l.log)
		}
		return nil
	})
	m.quiet.Store(false)

	stop, stopped := make(chan struct{}), make(chan error, 1)
	changes := rand.New(rand.NewPCG(rnd.Uint64(), 2)) // rnd itself is for this goroutine
	go func() { stopped <- scribble(folder, stop, changes) }()
	for range 50 {
		time.Sleep(time.Duration(30+rnd.IntN(200)) * time.Millisecond)
		l.kill()
		l.start()
	}
	close(stop)
	must(t, <-stopped)
	m.quiet.Store(true)
	m.later.Wait()
	// Files that change at about the same time are looked at together, in any order. When one has been
	// listed, so have those that were written before it.
	must(t, os.WriteFile(filepath.Join(folder, "the one before"), []byte("x"), 0o600))
	eventually(t, time.Minute, func() error {
		if !slices.ContainsFunc(changeList(t, "http://"+addr+"/changelist.xml"), func(e listed) bool { return strings.HasSuffix(e.Loc, "/the%20one%20before") }) {
			return errors.New("the change before the last one is not listed")
		}
		return nil
	})
	must(t, os.WriteFile(filepath.Join(folder, "the last one"), []byte("x"), 0o600))
	eventually(t, time.Minute, func() error {
		all := l.all()
		if len(all) == 0 || !strings.HasSuffix(all[len(all)-1].Changes[len(all[len(all)-1].Changes)-1].URL, "/the%20last%20one") {
			st := l.status()
			return fmt.Errorf("the last change was not handed on: %d lines; %+v\n%s", len(all), st, &l.log)
		}
		return nil
	})
	t.Logf("of the deliveries were %v; %d lines", m.did, len(l.all()))
	var want []listed
	eventually(t, time.Minute, func() error {
		want = changeList(t, "http://"+addr+"/changelist.xml")
		if n := len(want); n == 0 || !strings.HasSuffix(want[n-1].Loc, "/the%20last%20one") {
			return fmt.Errorf("the Change List ends after %d changes", n)
		}
		return nil
	})
	judgeListened(t, l.got(), want)

	eventually(t, time.Minute, func() error { // the status is written every two seconds
		st := l.status()
		for _, g := range st.Gaps {
			if g.State != "repaired" {
				return fmt.Errorf("gaps: %+v", st.Gaps)
			}
		}
		if s := st.Subscriptions; len(s) != 1 || s[0].State != "active" || !s[0].Signed || len(st.Gaps) == 0 || st.Trouble != "" {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	if code := l.terminate(); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, &l.log)
	}
}

// scribble writes, changes and deletes files until it is stopped.
func scribble(folder string, stop chan struct{}, rnd *rand.Rand) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-time.After(time.Duration(rnd.IntN(60)) * time.Millisecond):
		}
		name := filepath.Join(folder, fmt.Sprintf("r%03d", rnd.IntN(100)))
		var err error
		if rnd.IntN(6) == 0 {
			if err = os.Remove(name); os.IsNotExist(err) {
				err = nil
			}
		} else {
			err = os.WriteFile(name, []byte(strings.Repeat("x", i)), 0o600)
		}
		if err != nil {
			return err
		}
	}
}

// judgeListened holds what processes printed, one after the other, against what
// changed.
func judgeListened(t *testing.T, runs [][]heard, want []listed) {
	t.Helper()
	next, repeated, repaired := 0, 0, 0 // next is the change that comes next
	for n, run := range runs {
		for i, line := range run {
			if line.NeedsBaseline || len(line.Changes) == 0 {
				t.Fatalf("process %d printed %+v", n, line)
			}
			if line.Repaired {
				repaired++
			}
			at := next
			if first := line.Changes[0]; i == 0 { // a line may come again if its commit was cut off
				for at > max(0, next-1000) && (at == len(want) || want[at].Loc != first.URL || !want[at].MD.Datetime.Equal(first.Datetime)) {
					at--
				}
				repeated += next - at
				if at != next && at+len(line.Changes) != next {
					t.Fatalf("process %d began with changes %d to %d, when there had been %d", n, at, at+len(line.Changes), next)
				}
			}
			for _, c := range line.Changes {
				if at >= len(want) || c.URL != want[at].Loc || c.Change != want[at].MD.Change || !c.Datetime.Equal(want[at].MD.Datetime) {
					t.Fatalf("process %d handed on %+v as change %d of %d, want %+v", n, c, at, len(want), want[min(at, len(want)-1)])
				}
				at++
			}
			next = at
		}
	}
	if next != len(want) {
		t.Fatalf("%d of %d changes were handed on", next, len(want))
	}
	t.Logf("%d changes in %d processes; %d came twice, %d lines were repaired", next, len(runs), repeated, repaired)
}

// Plain content of any WebSub topic passes in order, without continuity.
func TestListenToPlainContent(t *testing.T) {
	h := startHub(t)
	body := "first"
	topic := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", fmt.Sprintf(`<http://%s/>; rel="self", <%s>; rel="hub"`, r.Host, h.url()))
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(topic.Close)
	l := newListener(t, "--topic", topic.URL+"/", "--unsubscribe")
	l.start()
	h.active(1)
	for i, text := range []string{"first", "a\nsecond", "\xff\x00"} {
		body = text
		h.form("hub.mode", "publish", "hub.url", topic.URL+"/").want(t, http.StatusAccepted)
		eventually(t, time.Minute, func() error {
			if n := len(l.all()); n != i+1 {
				return fmt.Errorf("%d lines, want %d\n%s", n, i+1, &l.log)
			}
			return nil
		})
	}
	all := l.all()
	if all[0].Content != "first" || all[0].MediaType != "text/plain; charset=utf-8" || all[1].Content != "a\nsecond" || all[2].ContentBase64 != "/wA=" {
		t.Errorf("%+v", all)
	}
	if code := l.terminate(); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, &l.log)
	}
	h.active(0)
	if st := l.status(); st.Subscriptions[0].State != "ended" || len(st.Gaps) != 0 {
		t.Errorf("%+v", st)
	}
}

// A command is run for each change, again until it ends with 0, or with 65 for what
// it will never do; then the next.
func TestListenRunsACommand(t *testing.T) {
	h := startHub(t)
	topic := "http://" + h.addr + "/topic"
	out := filepath.Join(t.TempDir(), "out")
	script := filepath.Join(t.TempDir(), "on change.sh")
	must(t, os.WriteFile(script, []byte(`#!/bin/sh
n=$(grep -c "^$RSSUB_URL " "$OUT")
echo "$RSSUB_URL $RSSUB_CHANGE $RSSUB_DATETIME $RSSUB_REPAIRED $(grep -o '"changes":\[{"change":"updated"' | wc -l)" >> "$OUT"
case $RSSUB_URL in
*02) exit 65 ;;
*03) test $n -ge 1 ;;
esac
`), 0o700))
	must(t, os.WriteFile(out, nil, 0o600))
	l := newListener(t, "--topic", topic, "--hub", h.url(), "--exec", "OUT='"+out+"' '"+script+"'")
	l.start()
	h.active(1)
	from := time.Now().Add(-time.Hour).Truncate(100 * time.Second).UTC()
	var want []string
	for i := range 5 {
		at := from.Add(time.Duration(i) * time.Second)
		h.accepted(topic, notification(at, at.Add(time.Second), 0))
		line := fmt.Sprintf("https://example.org/r/%d updated %s false 1", at.Unix(), stamp(at))
		want = append(want, line)
		if strings.HasSuffix(fmt.Sprint(at.Unix()), "03") {
			want = append(want, line)
		}
	}
	eventually(t, time.Minute, func() error {
		raw, err := os.ReadFile(out)
		if got := strings.Split(strings.TrimSpace(string(raw)), "\n"); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("the command was run for\n%s\nwant\n%s\n%s", raw, strings.Join(want, "\n"), &l.log)
		}
		if n := l.status().Counts.Backlog; n != 0 { // a command that is ended before its exit code is read runs again
			return fmt.Errorf("%d bytes are still to be handed on", n)
		}
		return nil
	})
	if code := l.terminate(); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, &l.log)
	}
	l.start() // and nothing is done again
	time.Sleep(300 * time.Millisecond)
	if raw, err := os.ReadFile(out); err != nil || strings.Count(string(raw), "\n") != len(want) {
		t.Errorf("after a restart: %s", raw)
	}
	text, err := exec.CommandContext(t.Context(), command("rssub"), "status", "--state-dir", l.dir).Output()
	if err != nil || !strings.Contains(string(text), "active") || !strings.Contains(string(text), "received until") {
		t.Errorf("%v: %s", err, text)
	}
}
