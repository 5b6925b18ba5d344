package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// change makes the API change something, and returns its answer.
func (h *hub) change(method, path string) []byte {
	h.t.Helper()
	status, body := send(h.t, method, h.admin+"api/v1/"+path, nil, nil)
	if status != http.StatusOK {
		h.t.Fatalf("%s %s: %d %s", method, path, status, body)
	}
	return body
}

// link makes a link to the page of a subscription for its subscriber.
func (h *hub) link(id string) string {
	h.t.Helper()
	var link struct{ URL string }
	if err := json.Unmarshal(h.change(http.MethodPost, "subscriptions/"+id+"/link"), &link); err != nil || !strings.HasPrefix(link.URL, h.public+"subscription/") {
		h.t.Fatalf("the link to %s is %q: %v", id, link.URL, err)
	}
	return link.URL
}

// The subscriber's page behind a link, for subscriptions in all states, with the texts of
// strangers.
func TestLinks(t *testing.T) {
	h := start(t, "--node-id=hub-1", "--subscriber-pages", "--timeout=1s", "--retry-first=1s", "--retry-max=10m", "--retention-bytes=4000")
	r := receive(t, "127.0.0.2")
	const topic = "https://library.example.org/articles/capabilitylist.xml"
	s := newSource(h, topic, 500)
	h.subscribe(topic, r.url+"/ok/active", r.url+"/500/failing", r.url+"/ok/paused", r.url+"/ok/ended")
	for _, text := range hostile { // some of it is refused
		raw := strings.NewReplacer(" ", "%20", "\r", "%0d", "\n", "%0a", "<", "%3C", ">", "%3E", `"`, "%22").Replace(text)
		for _, in := range []string{raw, url.QueryEscape(text), url.PathEscape(text)} {
			h.form(url.Values{"hub.mode": {"subscribe"}, "hub.topic": {"http://127.0.0.1:2/" + in}, "hub.callback": {r.url + "/hostile/?" + in}})
		}
	}
	var all struct {
		Items []struct{ ID, Topic, Callback, State string }
	}
	h.await(func() error {
		if h.api("subscriptions?limit=1000", &all); len(all.Items) < 4+len(hostile) {
			return fmt.Errorf("there are only %d subscriptions", len(all.Items))
		}
		for _, one := range all.Items {
			if one.State == "pending" {
				return fmt.Errorf("%s is pending", one.Callback)
			}
		}
		return nil
	})
	names, begin, hostileTopics := map[string]string{}, []string{"nonsense"}, map[string]bool{}
	for _, one := range all.Items {
		name := "hostile"
		if one.Topic == topic {
			name = one.Callback[strings.LastIndex(one.Callback, "/")+1:]
		} else {
			hostileTopics[one.Topic] = true
		}
		link := h.link(one.ID)
		names[strings.TrimPrefix(link, h.public)] = name
		begin = append(begin, link)
		if name == "active" {
			begin = append(begin, link+"?done=retry", link+"?done="+url.QueryEscape(hostile[0]))
		}
		switch name {
		case "paused":
			h.change(http.MethodPost, "subscriptions/"+one.ID+"/pause")
		case "ended":
			h.change(http.MethodDelete, "subscriptions/"+one.ID)
		}
	}
	for i := range 20 {
		s.publish("https://library.example.org/articles/" + strconv.Itoa(i))
	}
	for topic := range hostileTopics {
		newSource(h, topic, 500).try("https://example.org/1")
	}
	h.inState("failing", 1+len(hostileTopics))
	h.await(func() error {
		for _, one := range h.inState("failing", 1) {
			if strings.HasSuffix(one.Callback, "/failing") && one.Gaps > 0 {
				return nil
			}
		}
		return fmt.Errorf("retention took nothing from the one that fails")
	})

	walk{
		state: "links", h: h, base: h.public + "subscription/", begin: begin, each: 60,
		name: func(u *url.URL) string {
			if name := names[strings.TrimPrefix(u.Path, "/")]; name != "" {
				return name
			}
			return "no link"
		},
		status: map[string]int{"no link": http.StatusNotFound},
		says: map[string][]string{
			"active": {"Notifications are delivered.", "The next attempt is due now.", "No delivery failed."}, "failing": {"answers 500", "Next try", "lost to retention", "Fetch what is missing"},
			"paused": {"The operator of the hub has paused it."}, "ended": {"It has ended"}, "hostile": {"answers 400", marker, "javascript"}, "no link": {"This link does not work."},
		},
	}.do(t)
}

// From their page, subscribers retry and have notifications delivered again. That also works over
// plain http at a name, with a script or without. Without the link, pages of other sites cannot do
// it.
func TestLinkForms(t *testing.T) {
	for how, script := range map[string]bool{"JavaScript": true, "no JavaScript": false} {
		t.Run(how, func(t *testing.T) {
			h := start(t, "--node-id=hub-1", "--subscriber-pages", "--allow-host="+hubName, "--retry-first=1h", "--retry-max=2h")
			r := receive(t, "127.0.0.2")
			s := newSource(h, "https://library.example.org/articles/capabilitylist.xml", 500)
			h.subscribe(s.topic, r.url+"/500/indexer")
			id := h.inState("active", 1)[0].ID
			s.publish("https://library.example.org/articles/1")
			h.inState("failing", 1)
			b := open(t, script)
			b.visit(strings.Replace(h.link(id), "127.0.0.1", hubName, 1))
			b.await(h, "answers 500")
			b.click(`button[value="retry"]`)
			b.await(h, "The next attempt is due now.")
			h.await(func() error {
				var one struct{ Attempt int }
				if h.api("subscriptions/"+id, &one); one.Attempt < 2 {
					return fmt.Errorf("it was not tried again")
				}
				return nil
			})
			b.click(`button[value="retry"]`)
			b.await(h, "Nothing was done: that was asked for a moment ago.")
			if trouble := b.troubles(); len(trouble) > 0 {
				t.Error(trouble)
			}
		})
	}
}
