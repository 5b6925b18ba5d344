package destination_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// logged is a log that tells of each line.
type logged chan string

func (l logged) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default: // nobody reads it any more
	}
	return len(b), nil
}

// A Source that is away, not ready, or offers nothing yet when following begins is waited
// for, and the log says so once for each step.
func TestFollowWaitsForTheSource(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, *source) (ready func()){
		"away": func(t *testing.T, s *source) func() {
			address := s.Listener.Addr().String()
			handler := s.Config.Handler
			s.Server.Close()
			return func() {
				l, err := net.Listen("tcp", address) //nolint:noctx // it is on loopback
				if err != nil {
					t.Fatal(err)
				}
				again := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
				again.Start()
				t.Cleanup(again.Close)
			}
		},
		"not ready": func(_ *testing.T, s *source) func() {
			s.set("/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "it is being scanned", http.StatusServiceUnavailable)
			})
			return func() { s.set("/capabilitylist.xml", nil) }
		},
		"nothing to copy": func(_ *testing.T, s *source) func() {
			was := s.offers
			s.offers = nil
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.offers = was
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir, lines := newSource(t), t.TempDir(), make(logged, 1000)
			s.put("a", "a", 0)
			ready := begin(t, s)
			events := make(chan destination.Event, 10)
			c := s.open(dir, func(o *destination.Options) {
				o.Event, o.Log = func(e destination.Event) { events <- e }, slog.New(slog.NewTextHandler(lines, nil))
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Follow(ctx) }()
			said := 0
			for patience := time.After(within); ; {
				select {
				case line := <-lines:
					if strings.Contains(line, "event=source_failed") {
						if said++; said == 1 {
							if !strings.Contains(line, "the Source is unavailable or not ready; it is asked again in 2s") {
								t.Errorf("the log says %s", line)
							}
							ready()
						}
					}
					continue
				case err := <-ended:
					t.Fatalf("it ended: %v", err)
				case <-events:
				case <-patience:
					t.Fatal("nothing was copied")
				}
				break
			}
			cancel()
			if err := <-ended; err != nil || said != 1 {
				t.Errorf("%v; the log said so %d times", err, said)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What only a person can change ends it at once.
func TestFollowEndsWhereWaitingIsOfNoUse(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", code) }
	}
	for name, answers := range map[string]http.HandlerFunc{
		"401": status(401), "403": status(403), "404": status(404), "410": status(410), "501": status(501),
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, "<!DOCTYPE html><title>Hello</title>")
		},
		"no XML": func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<urlset") },
		"another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://other.example/", http.StatusFound)
		},
	} {
		s := &source{t: t, Server: httptest.NewServer(answers)}
		t.Cleanup(s.Close)
		c := s.open(t.TempDir())
		ctx, cancel := context.WithTimeout(t.Context(), within)
		if err := c.Follow(ctx); err == nil {
			t.Errorf("%s: it waited, and ended with ctx", name)
		}
		cancel()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A Source is asked again and again for the changes of a set with a hub, and the set is subscribed
// to nowhere, with ViaPoll, and without a callback where the hub has no stream.
func TestFollowPolls(t *testing.T) {
	for _, via := range []subscriber.Via{subscriber.ViaPoll, subscriber.ViaAuto} {
		s := newSource(t)
		s.put("a", "first", 0)
		p := followWith(t, s, []string{resourcesync.ResourceList, resourcesync.ChangeList}, func(o *destination.Options) {
			o.Via, o.PollEvery = via, 20*time.Millisecond
			if via == subscriber.ViaAuto {
				o.Callback = ""
			}
		})
		p.happens(destination.Copied, "a", "")
		s.put("a", "second", 60)
		p.happens(destination.Copied, "a", "")
		if all, err := p.copy.Status(); err != nil || len(all) > 1 || via == subscriber.ViaAuto && (len(all) == 0 || all[0].Way != subscriber.ViaPoll) {
			t.Errorf("%q: %v %+v", via, err, all)
		}
		select {
		case c := <-p.callback:
			t.Errorf("it subscribed with the callback %s", c)
		default:
		}
	}
}

// soon does not wait long for what was not pushed.
func soon(o *destination.Options) { o.HoldFor = 50 * time.Millisecond }

// A Source that pushes, and has its changes in Change Dumps or nowhere but in the pushes,
// is subscribed to at the hub that its Capability List names. What was lost comes from
// the Change Dumps; what these lack from a baseline.
func TestFollowsPushesWithoutChangeList_SRC11(t *testing.T) {
	s := newSource(t)
	d := dumpsChanges(s)
	for _, name := range []string{"a", "b", "c"} {
		s.put(name, "first "+name, 0)
	}
	s.freezeList()
	p := followWith(t, s, []string{resourcesync.ResourceList, resourcesync.ChangeDump}, soon)
	s.set("/changes/", http.NotFound) // a channel need not be a page
	p.happens(destination.Copied, "c", "")
	callback := p.subscribed()

	s.put("a", "second", 0)
	p.happens(destination.Copied, "a", p.push(callback, p.entryOf("a", resourcesync.Updated)))
	p.same()

	// What happened in the second minute is in a package, and was not pushed.
	d.add(0, 60, change{1, "a", "second"})
	d.add(60, 120, change{90, "b", "second"}, change{91, "c", ""})
	p.until = p.until.Add(time.Minute)
	lists := p.asked("/resourcelist.xml")
	s.put("e", "pushed", 0)
	id := p.push(callback, p.entryOf("e", resourcesync.Created))
	p.happens(destination.Copied, "b", "")
	p.happens(destination.Deleted, "c", "")
	p.happens(destination.Copied, "e", id)
	p.same()
	if n := p.asked("/resourcelist.xml"); n != lists {
		t.Errorf("the Resource List was asked for %d times, although the Change Dumps have what was missed", n-lists)
	}

	// What happened in the fourth minute is in none, and the list is newer than that.
	p.until = p.until.Add(time.Minute)
	s.put("b", "third", 0)
	s.mu.Lock()
	s.at = p.until
	s.mu.Unlock()
	s.set("/resourcelist.xml", nil)
	s.put("f", "pushed", 0)
	p.push(callback, p.entryOf("f", resourcesync.Created))
	p.happens(destination.Copied, "f", "") // of the list
	p.happens(destination.Copied, "b", "")
	p.same()
}

// What a list or dump says that is older than what was pushed undoes none of that, however
// often it is read.
func TestNothingOlderUndoesAPush(t *testing.T) {
	for name, offers := range map[string][]string{
		"list":  {resourcesync.ResourceList},
		"dumps": {resourcesync.ResourceList, resourcesync.ChangeDump},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			d := dumpsChanges(s)
			for _, name := range []string{"gone", "new", "same"} {
				s.put(name, "first", 0)
			}
			s.freezeList()
			p := followWith(t, s, offers, func(o *destination.Options) { soon(o); o.CheckEvery = 20 * time.Millisecond })
			p.happens(destination.Copied, "same", "")
			callback := p.subscribed()
			if name == "dumps" { // something was lost, and the dumps have it later
				p.until = p.until.Add(time.Minute)
			}
			s.mu.Lock()
			delete(s.files, "gone")
			s.mu.Unlock()
			s.set("/data/gone", answer("first"))
			s.put("new", "second", 0)
			id := p.push(callback, p.entryOf("new", resourcesync.Updated), p.entryOf("gone", resourcesync.Deleted))
			p.happens(destination.Deleted, "gone", id)
			p.happens(destination.Copied, "new", id)
			if name == "dumps" {
				d.add(0, 60, change{1, "gone", "first"}, change{1, "new", "first"}, change{1, "late", "late"})
				s.mu.Lock()
				delete(s.files, "gone")
				s.files["new"] = "second"
				s.mu.Unlock()
				p.happens(destination.Copied, "late", "")
			}
			looked := "/" + offers[len(offers)-1] + ".xml"
			for n, patience := p.asked(looked), time.Now().Add(within); p.asked(looked) < n+3; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(patience) {
					t.Fatalf("%s is not asked again", looked)
				}
			}
			p.same()
		})
	}
}

// Where the state of a copy is lost, its subscription is not: it is renewed or ended, and does not last until its lease ends
// while the hub delivers to a callback that nobody knows.
func TestSubscriptionOutlivesTheState(t *testing.T) {
	s := newSource(t)
	s.put("a", "first", 0)
	p := follow(t, s)
	callback := p.subscribed()
	p.end()
	state := filepath.Join(p.dir, ".rssub")
	if err := os.Remove(filepath.Join(state, "copy.db")); err != nil {
		t.Fatal(err)
	}
	s.put("a", "second", 10)
	c := s.open(p.dir)
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	p.same()
	st, err := subscriber.ReadStatus(filepath.Join(state, setFolder(t, state)))
	if err != nil || len(st.Subscriptions) != 1 || st.Subscriptions[0].State != "active" {
		t.Errorf("the subscription of %s: %v %+v", callback, err, st.Subscriptions)
	}
}
