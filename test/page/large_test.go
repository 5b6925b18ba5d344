package page

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/store/redisstore"
	"github.com/rshub/rshub/test/redistest"
)

const (
	// wanted is how long the answer of a page should take at most, on a machine that does nothing
	// else. The test reports it, and does not assert it.
	wanted = 100 * time.Millisecond
	// timings is how often each page is timed. Slow pages are timed less often.
	timings = 100
	// fleetURL is the hub URI of hubs that share a store.
	fleetURL = "http://hub.example.org/"
)

// Three hubs share a Redis with 100,000 subscriptions. Every page shows the whole fleet.
func TestLargeRedis(t *testing.T) {
	redis := redistest.Standalone(t)
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: redis.URL(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	seed(t, s)
	var fleet []*hub
	for _, name := range []string{"hub-1", "hub-2", "hub-3"} {
		h := start(t, "--node-id="+name, "--redis-url", redis.URL(), "--public-url", fleetURL)
		h.name = fleetURL
		fleet = append(fleet, h)
	}
	large(t, fleet...)
	allPages(t, fleet[0], "large", map[string][]string{
		"now": {"30 subscriptions fail, of 100,0", "hub-1", "hub-2", "hub-3"}, "subscriptions": {"Next page"}, "topics": {"Next page"}, "hub": {"hub-2"}, "streams": {"Next page", "hub-2 120"},
	})
}

func TestLargeEmbedded(t *testing.T) {
	h := newHub(t, "--node-id=hub-1")
	s, err := embedstore.Open(h.dir, embedstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seed(t, s)
	h.run()
	h.ready()
	large(t, h)
}

// large has hubs deliver some notifications, waits until they have counted all subscriptions, and
// times the pages of the first hub.
func large(t *testing.T, fleet ...*hub) {
	t.Helper()
	r := receive(t, "127.0.0.2")
	s := newSource(fleet[0], "https://library.example.org/live/capabilitylist.xml", 500)
	fleet[0].subscribe(s.topic, append(many(r.url+"/ok/mirror", 30), many(r.url+"/500/indexer", 30)...)...)
	fleet[0].await(func() error {
		got := 0
		for _, h := range fleet {
			var now struct{ Hubs []struct{ ID string } }
			h.api("now", &now)
			got += len(now.Hubs)
		}
		if got != len(fleet)*len(fleet) {
			return fmt.Errorf("the hubs do not see each other yet")
		}
		return nil
	})
	fleet[0].inState("active", 30)
	fleet[0].total(largeSubscriptions)
	s.publish("https://library.example.org/items/live")
	fleet[0].inFailing(30)
	for _, h := range fleet {
		h.read("127.0.0.9", "", false, slices.Repeat([][]string{{s.topic}}, 120)...)
	}
	measure(t, fleet[0])
}

// total waits until the hubs have counted at least n subscriptions.
func (h *hub) total(n int) {
	h.t.Helper()
	h.await(func() error {
		var now struct {
			Hubs []struct{ Active, Failing, Pending, Paused int }
		}
		h.api("now", &now)
		got := 0
		for _, hub := range now.Hubs {
			got += hub.Active + hub.Failing + hub.Pending + hub.Paused
		}
		if got < n {
			return fmt.Errorf("the hubs count %d of %d subscriptions", got, n)
		}
		return nil
	})
}

// inFailing waits until the hubs count n failing subscriptions.
func (h *hub) inFailing(n int) {
	h.t.Helper()
	h.await(func() error {
		var now struct{ Hubs []struct{ Failing int } }
		h.api("now", &now)
		got := 0
		for _, hub := range now.Hubs {
			got += hub.Failing
		}
		if got < n {
			return fmt.Errorf("%d of %d subscriptions fail", got, n)
		}
		return nil
	})
}

// processor is how long processors have worked for the hub. Other programs on the machine hardly
// change it.
func (h *hub) processor(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third on
	var ticks time.Duration
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}

// measure logs how long the answers of each page take, and how long the hub works for one.
func measure(t *testing.T, h *hub) {
	t.Helper()
	id := func(topic string) string { return journal.TopicID(topic).String() }
	newest := func(topic string) string {
		var got struct{ Head struct{ ID string } }
		h.api("topics/"+id(topic), &got)
		return got.Head.ID
	}
	var sub struct{ Items []listed }
	h.api("subscriptions?limit=1&topic="+url.QueryEscape(wideTopic), &sub)
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("%d processors, load %.14s; one request after the other, from the same machine", runtime.NumCPU(), load)
	for _, path := range []string{
		"", "subscriptions", "subscriptions?state=active", "subscriptions?state=failing", "subscriptions?state=ended",
		"subscriptions?topic=" + url.QueryEscape(wideTopic), "subscriptions?topic=" + url.QueryEscape(deepTopic), "subscriptions?host=mirror-7.example.net",
		"subscriptions?after=" + sub.Items[0].ID, "subscriptions/" + sub.Items[0].ID, "subscriptions/all?do=retry&state=failing", "subscriptions/all?do=end",
		"topics", "topics?after=" + id(deepTopic), "topics/" + id(wideTopic), "topics/" + id(deepTopic),
		"notifications/" + newest(wideTopic), "notifications/" + newest(deepTopic), "refusals", "streams", "publishers", "settings", "hub", "find?q=" + url.QueryEscape(deepTopic), "login",
	} {
		var took []time.Duration
		size, busy := 0, h.processor(t)
		for first := time.Now(); len(took) < timings && (len(took) < 20 || time.Since(first) < 5*time.Second); {
			begin := time.Now()
			status, body := send(t, http.MethodGet, h.admin+"ui/"+path, nil, nil)
			took = append(took, time.Since(begin))
			if size = len(body); status != http.StatusOK || size > maxPage {
				t.Fatalf("/ui/%s answers %d with %d bytes", path, status, size)
			}
		}
		slices.Sort(took)
		p50, p99 := took[len(took)/2], took[len(took)*99/100]
		note := ""
		if p99 > wanted {
			note = "  over " + wanted.String()
		}
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		each := (h.processor(t) - busy) / time.Duration(len(took))
		t.Logf("%3d answers  p50 %7.1f ms  p99 %7.1f ms  processor %6.1f ms  %6.1f KB  /ui/%s%s", len(took), ms(p50), ms(p99), ms(each), float64(size)/1024, cmp.Or(strings.ReplaceAll(path, id(deepTopic), "DEEP"), ""), note)
	}
}
