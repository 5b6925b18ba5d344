package page

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/test/redistest"
)

// everywhere are the kinds of pages that a hub with a topic, a subscription and a
// notification has.
var everywhere = []string{
	"now", "subscriptions", "subscriptions/ID", "topics", "topics/ID", "notifications/ID", "refusals", "streams", "publishers", "settings", "hub",
	"subscriptions/all?do", "subscriptions/all?do&state", "missing",
}

// allPages walks over a hub with a topic, a subscription and a notification. Of each page it
// expects some words.
func allPages(t *testing.T, h *hub, state string, says map[string][]string, begin ...string) {
	t.Helper()
	for _, k := range everywhere {
		says[k] = append(says[k], "")
	}
	walk{
		state: state, h: h, says: says, status: map[string]int{"missing": http.StatusNotFound},
		begin: append(begin, "subscriptions/all?do=end", "subscriptions/all?do=retry&state=failing", "missing"),
	}.do(t)
}

// many are callbacks below a base.
func many(base string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s/%d", base, i+1))
	}
	return all
}

func TestEmpty(t *testing.T) {
	walk{
		state: "empty", h: start(t, "--node-id=hub-1"), begin: []string{"nothing", "find?q=a+b", "login", "subscriptions?state=ended", "subscriptions/all?do=pause"},
		status: map[string]int{"nothing": http.StatusNotFound, "find?q": http.StatusNotFound},
		says: map[string][]string{
			"now": {"The hub is ready, and there are no subscriptions yet.", "No loss is in sight.", "Nothing fails."}, "subscriptions": {"There is none."}, "topics": {"There is none."},
			"refusals": {"Nothing was refused."}, "streams": {"No reader has a stream open at this hub."}, "publishers": {"without a credential"}, "settings": {"--public-url"}, "hub": {"Hubs on the store"},
			"nothing": {"There is no page at /ui/nothing."}, "find?q": {"Nothing was found."}, "subscriptions/all?do": {"There is nothing to do."},
		},
	}.do(t)
}

// A hub with much to do and nothing wrong.
func TestBusy(t *testing.T) {
	publishers := filepath.Join(t.TempDir(), "publishers")
	if err := os.WriteFile(publishers, fmt.Appendf(nil, "publishers:\n  - name: aggregator\n    reads: ['*']\n    token_sha256: ['%x']\n", sha256.Sum256([]byte("a token"))), 0o600); err != nil {
		t.Fatal(err)
	}
	h := start(t, "--node-id=hub-1", "--publishers-file="+publishers, "--stream=token")
	var sources []*source
	var topics []string
	for i, name := range []string{"articles", "datasets", "theses"} {
		r := receive(t, fmt.Sprintf("127.0.0.%d", i+2))
		s := newSource(h, "https://library.example.org/"+name+"/capabilitylist.xml", 5000)
		h.subscribe(s.topic, many(r.url+"/ok/mirror", 20)...)
		s.publish("https://library.example.org/items/" + name)
		sources, topics = append(sources, s), append(topics, s.topic)
	}
	h.read("127.0.0.9", "a token", false, topics)
	h.read("127.0.0.1", "a token", false, topics[:1], topics[1:])
	h.inState("active", 60)
	defer keepPublishing(sources)() // before the context of the test ends
	h.await(func() error {
		var now struct {
			Hubs []struct {
				Rate float64 `json:"deliveries_per_second"`
			}
		}
		if h.api("now", &now); len(now.Hubs) != 1 || now.Hubs[0].Rate < 1 {
			return fmt.Errorf("nothing is delivered: %+v", now)
		}
		return nil
	})
	h.counted()
	allPages(t, h, "busy", map[string][]string{
		"now": {"every subscription gets what it should", "60"}, "subscriptions/ID": {"No delivery failed."}, "notifications/ID": {"delivered to", "change-notification"}, "topics/ID": {"accepted"},
		"streams": {"aggregator", "127.0.0.1", "up to date"},
	})
}

// Hosts that refuse connections, do not answer or answer with errors, beside one that is well.
func failing(t *testing.T) *hub {
	t.Helper()
	h := start(t, "--node-id=hub-1", "--timeout=1s", "--retry-first=1s", "--retry-max=10m", "--per-host=2", "--stream-stall=20m")
	well, ill, slow, gone := receive(t, "127.0.0.2"), receive(t, "127.0.0.3"), receive(t, "127.0.0.4"), receive(t, "127.0.0.5")
	articles, theses := newSource(h, "https://library.example.org/articles/capabilitylist.xml", 500), newSource(h, "https://library.example.org/theses/capabilitylist.xml", 300)
	h.subscribe(articles.topic, append(many(well.url+"/ok/mirror", 12), ill.url+"/500/indexer", ill.url+"/400/archive", slow.url+"/hang/backup", gone.url+"/ok/mirror")...)
	h.subscribe(theses.topic, append(many(well.url+"/ok/mirror", 5), ill.url+"/500/indexer", slow.url+"/hang/backup/2")...)
	h.inState("active", 23)
	gone.close()
	for i := range 6 {
		articles.publish("https://library.example.org/articles/1", "https://library.example.org/articles/2?page="+strconv.Itoa(i))
		theses.publish("https://library.example.org/theses/" + strconv.Itoa(i))
	}
	h.inState("failing", 6)
	h.now("suspect host", "does not answer in time", "cannot be connected to", "answers 500 Internal Server Error", "First loss")
	h.counted()
	return h
}

func TestFailing(t *testing.T) {
	h := failing(t)
	long := newSource(h, "https://library.example.org/images/capabilitylist.xml", 500)
	for range 60 { // more than fits into the buffers of a connection
		long.publish(many("https://library.example.org/images/"+strings.Repeat("i", 16_000), 12)...)
	}
	h.read("127.0.0.9", "", true, []string{long.topic})
	h.read("127.0.0.10", "", false, []string{long.topic})
	time.Sleep(2 * time.Second) // the page says so after one
	allPages(t, h, "failing", map[string][]string{
		"now":                 {"6 subscriptions fail", "First loss in", "Hosts that fail", "127.0.0.3", "127.0.0.4", "127.0.0.5"},
		"subscriptions":       {"Failing the longest", "suspect host"},
		"subscriptions/ID":    {"next try in", "Attempts"},
		"subscriptions?state": {"Found"},
		"topics/ID":           {"is the furthest behind"},
		"notifications/ID":    {"Who waits for it"},
		"streams":             {"has read nothing for", "up to date"},
	})
}

// gaps is a hub with a topic that has gaps, and a subscription that lost notifications.
func gaps(t *testing.T) *hub {
	t.Helper()
	h := start(t, "--node-id=hub-1", "--continuity=flag", "--retry-first=50ms", "--retry-max=100ms", "--give-up=1s")
	r := receive(t, "127.0.0.2")
	s := newSource(h, "https://library.example.org/articles/capabilitylist.xml", 500)
	h.subscribe(s.topic, append(many(r.url+"/ok/mirror", 4), r.url+"/500/indexer")...)
	h.inState("active", 5)
	for i := range 12 {
		if i == 4 || i == 9 {
			s.skip()
		}
		s.publish("https://library.example.org/articles/" + strconv.Itoa(i))
	}
	h.now("given up. Each is a gap")
	return h
}

func TestGaps(t *testing.T) {
	h := gaps(t)
	loser := ""
	var page struct{ Items []listed }
	h.api("subscriptions", &page)
	for _, one := range page.Items {
		if strings.HasSuffix(one.Callback, "/indexer") && one.Gaps > 0 {
			loser = one.ID
		}
	}
	allPages(t, h, "gaps", map[string][]string{
		"now": {"In the last hour", "given up. Each is a gap"}, "topics/ID": {"gap", "left out by the Source (source)"}, "subscriptions/ID": {"given up on (gave_up)"}, "topics": {"2"},
	}, "subscriptions/"+loser)
}

// A hub whose Redis lost what was written last.
func TestRolledBack(t *testing.T) {
	redis := redistest.Standalone(t)
	h := start(t, "--node-id=hub-1", "--redis-url", redis.URL())
	r := receive(t, "127.0.0.2")
	s := newSource(h, "https://library.example.org/articles/capabilitylist.xml", 500)
	h.subscribe(s.topic, many(r.url+"/ok/mirror", 6)...)
	h.inState("active", 6)
	for i := range 5 {
		s.publish("https://library.example.org/articles/" + strconv.Itoa(i))
	}
	h.delivered(s.topic, 5)
	redis.LoseTail(t, func() {
		for i := range 3 {
			s.publish("https://library.example.org/lost/" + strconv.Itoa(i))
		}
		h.delivered(s.topic, 8)
	})
	h.await(func() error { // the hub says that the lost notifications have to be sent again
		status, body := s.try("https://library.example.org/articles/9")
		if s.until = s.until.Add(-time.Minute); status != http.StatusConflict {
			return fmt.Errorf("what follows the lost intervals is answered %d %s", status, body)
		}
		return nil
	})
	s.until = s.until.Add(-3 * time.Minute)
	for i := range 4 {
		s.publish("https://library.example.org/again/" + strconv.Itoa(i))
	}
	h.delivered(s.topic, 9)
	h.counted()
	allPages(t, h, "rolled back", map[string][]string{"now": {"Redis lost notifications that it had acknowledged"}, "topics/ID": {"lost by the store", "lost by the store (rolled_back)"}, "subscriptions/ID": {"lost by the store (rolled_back)"}, "refusals": {"library.example.org"}})
}

// A hub whose disk is nearly full, and then full.
func TestDisk(t *testing.T) {
	h := start(t, "--node-id=hub-1")
	var now struct {
		Hubs []struct {
			Space struct {
				Free int64 `json:"free_bytes"`
			}
		}
	}
	h.api("now", &now)
	h.restart("--min-free-disk=" + strconv.FormatInt(now.Hubs[0].Space.Free/2, 10))
	r := receive(t, "127.0.0.2")
	s := newSource(h, "https://library.example.org/articles/capabilitylist.xml", 500)
	h.subscribe(s.topic, many(r.url+"/ok/mirror", 6)...)
	h.inState("active", 6)
	s.publish("https://library.example.org/articles/1")
	h.counted()
	allPages(t, h, "disk nearly full", map[string][]string{"now": {"of free space left", "it stores nothing new"}})

	h.restart("--min-free-disk=" + strconv.FormatInt(now.Hubs[0].Space.Free*2, 10))
	s.try("https://library.example.org/articles/2")
	h.now("not ready")
	h.counted()
	allPages(t, h, "disk full", map[string][]string{"now": {"not ready", "the store is full", "publishers and subscribers get 503"}, "refusals": {"publish"}})
}

// answersWithin is how long a page may take while Redis does not answer.
const answersWithin = 2 * time.Second

// A hub whose Redis is dead, and then one whose Redis hangs. The pages soon show it.
func TestRedisAway(t *testing.T) {
	for name, away := range map[string]func(*redistest.Server){
		"redis dead": func(s *redistest.Server) { s.Kill(t) }, "redis hangs": func(s *redistest.Server) { s.Freeze(t) },
	} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Standalone(t)
			h := start(t, "--node-id=hub-1", "--redis-url", redis.URL())
			r := receive(t, "127.0.0.2")
			s := newSource(h, "https://library.example.org/articles/capabilitylist.xml", 500)
			h.subscribe(s.topic, many(r.url+"/ok/mirror", 6)...)
			h.inState("active", 6)
			s.publish("https://library.example.org/articles/1")
			h.delivered(s.topic, 1)
			id := h.inState("active", 6)[0].ID
			h.counted()
			away(redis)
			h.now("not ready")
			walk{
				state: name, h: h, within: answersWithin, begin: []string{"subscriptions/" + id, "subscriptions?state=failing"},
				status: map[string]int{"subscriptions": 503, "subscriptions/ID": 503, "subscriptions?state": 503, "topics": 503, "refusals": 503},
				says: map[string][]string{
					"now": {"not ready: store", "publishers and subscribers get 503"}, "subscriptions": {"The store did not answer"}, "subscriptions/ID": {"The store did not answer"},
					"topics": {"The store did not answer"}, "refusals": {"The store did not answer"}, "hub": {"hub-1"}, "publishers": {"without a credential"},
				},
			}.do(t)
		})
	}
}

// A hub that was asked to stop and finishes its deliveries.
func TestDraining(t *testing.T) {
	h := start(t, "--node-id=hub-1", "--drain=20m", "--timeout=20m")
	r := receive(t, "127.0.0.2")
	s := newSource(h, "https://library.example.org/articles/capabilitylist.xml", 500)
	h.subscribe(s.topic, append(many(r.url+"/ok/mirror", 6), r.url+"/hang/slow")...)
	h.inState("active", 7)
	s.publish("https://library.example.org/articles/1")
	h.await(func() error {
		var now struct {
			Hubs []struct {
				InFlight int `json:"in_flight"`
			}
		}
		if h.api("now", &now); now.Hubs[0].InFlight == 0 {
			return fmt.Errorf("nothing is in flight")
		}
		return nil
	})
	h.counted()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.now("draining")
	allPages(t, h, "draining", map[string][]string{"now": {"is shutting down", "draining", "finishes its deliveries"}})
}

// counted waits until the page Now has counted the subscriptions, which it does every few
// seconds.
func (h *hub) counted() {
	h.t.Helper()
	var page struct{ Items []listed }
	h.api("subscriptions?limit=1000", &page)
	h.await(func() error {
		var now struct {
			Hubs []struct{ Active, Failing, Pending, Paused int }
		}
		h.api("now", &now)
		n := 0
		for _, hub := range now.Hubs {
			n += hub.Active + hub.Failing + hub.Pending + hub.Paused
		}
		if n < len(page.Items) {
			return fmt.Errorf("the hubs count %d of %d subscriptions", n, len(page.Items))
		}
		return nil
	})
}

// keepPublishing publishes to topics, one after the other, until it is stopped.
func keepPublishing(sources []*source) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
				sources[i%len(sources)].publish("https://library.example.org/items/" + strconv.Itoa(i))
			}
		}
	}()
	return func() { close(ended); <-done }
}

// delivered waits until a notification, by its number, has reached all subscriptions.
func (h *hub) delivered(topic string, number int) {
	h.t.Helper()
	h.await(func() error {
		var page struct {
			Items []struct{ Cursor struct{ Seq int } }
		}
		h.api("subscriptions?limit=1000&topic="+url.QueryEscape(topic), &page)
		for _, one := range page.Items {
			if one.Cursor.Seq < number {
				return fmt.Errorf("a subscription got %d of %d", one.Cursor.Seq, number)
			}
		}
		return nil
	})
}
