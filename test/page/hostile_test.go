package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// marker is the name of a variable that the hostile texts try to set.
const marker = "rshubMarker"

// hostile are texts that run, or break out of their box, on a careless page.
var hostile = []string{
	`<script>` + marker + `=1;alert(1)</script>`,
	`"><img src=x onerror="` + marker + `=1">`,
	`'><svg/onload=` + marker + `=1>`,
	`javascript:` + marker + `=1//`,
	`</pre></textarea></title></style><script>` + marker + `=1</script>`,
	`{{.}}{{7*7}}${7*7}<%= 7*7 %>`,
	"\u202e\u2066txt.gpj\u2069\u200f" + "ابجد" + "\u202e",
	strings.Repeat("W", 1500),
	strings.Repeat("\u0301", 200) + strings.Repeat("﷽", 50),
	"a\r\nSet-Cookie: x=y\r\n\r\n<script>" + marker + "=1</script>",
	`<meta http-equiv="refresh" content="0;url=//evil.example/"><base href="//evil.example/"><form action="//evil.example/"><button>Log in`,
	`<iframe src="javascript:parent.` + marker + `=1"></iframe><a href="javascript:` + marker + `=1" autofocus onfocus="` + marker + `=1">x</a>`,
}

// Strangers choose topics, callbacks, documents, answers, and the requests that are refused. None
// of that runs or leaves its box on any page.
func TestHostile(t *testing.T) {
	h := start(t, "--node-id=<b>&amp;"+strings.Repeat("n", 40), "--timeout=5s", "--retry-first=1s", "--retry-max=10m", "--continuity=flag")
	r := receive(t, "127.0.0.2")
	var topics []string
	for i, text := range hostile {
		// In the path, as far as a URL may have it, and in the query.
		raw := strings.NewReplacer(" ", "%20", "\r", "%0d", "\n", "%0a", "<%", "<%25", `"`, "%22").Replace(text)
		for _, topic := range []string{
			"http://127.0.0.1:2/" + strings.NewReplacer("<", "%3C", ">", "%3E").Replace(raw), "http://127.0.0.1:2/q?" + raw, "http://127.0.0.1:2/e?" + url.QueryEscape(text),
		} {
			callback := r.url + []string{"/ok/", "/hostile/"}[i%2] + url.PathEscape(text) + "?" + url.QueryEscape(text)
			for _, c := range []string{callback, r.url + "/hostile/?" + raw} {
				// Some of it is refused, and the refusals are shown, too.
				h.form(url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {c}, "hub.secret": {"a secret"}})
			}
			h.form(url.Values{"hub.mode": {text}, "hub.topic": {topic}, "hub.callback": {callback}})
			topics = append(topics, topic)
		}
	}
	h.await(func() error {
		var pending struct{ Items []listed }
		if h.api("subscriptions?state=pending", &pending); len(pending.Items) > 0 {
			return fmt.Errorf("%d subscriptions wait for verification", len(pending.Items))
		}
		return nil
	})
	var accepted []string
	for i, topic := range topics {
		s := newSource(h, topic, 500)
		status, _ := s.try("https://example.org/"+url.PathEscape(hostile[i%len(hostile)])+"?"+url.QueryEscape(hostile[i%len(hostile)]), "https://example.org/<script>"+marker+"=1</script>")
		s.skip()
		s.try("https://example.org/2")
		if status == http.StatusOK {
			accepted = append(accepted, topic)
		}
		// A body that is no notification.
		send(t, http.MethodPost, h.public, link(h.public, topic), []byte("<x>"+strings.Join(hostile, "\n")))
	}
	// Plain content, which the hub fetches after a ping.
	h.subscribe(r.url+"/page/1", r.url+"/ok/plain")
	h.form(url.Values{"hub.mode": {"publish"}, "hub.url": {r.url + "/page/1"}})
	h.delivered(r.url+"/page/1", 1)
	if len(accepted) < len(hostile) {
		t.Errorf("only %d of %d hostile topics were accepted", len(accepted), len(topics))
	}
	var streams [][]string
	for i := range accepted {
		streams = append(streams, accepted[i:i+1], accepted[max(0, i-3):i+1])
	}
	h.read("127.0.0.9", "", true, streams...)
	h.inState("failing", 5)
	h.counted()
	var all struct {
		Items []struct {
			ID, URL string
			Head    struct{ ID string }
		}
	}
	h.api("topics?limit=1000", &all)
	begin := []string{"missing/" + url.PathEscape(hostile[0]), "subscriptions?host=" + url.QueryEscape(hostile[1]), "subscriptions?topic=" + url.QueryEscape(hostile[4]), "refusals?topic=" + url.QueryEscape(hostile[2]) + "&kind=" + url.QueryEscape(hostile[3]), "streams?topic=" + url.QueryEscape(hostile[1]), "find?q=" + url.QueryEscape(hostile[5]+" "+hostile[7]), "login?next=" + url.QueryEscape("//evil.example/") + "&refused=" + url.QueryEscape(hostile[0]), "subscriptions/all?do=end&topic=" + url.QueryEscape(hostile[7]+hostile[0])}
	for _, one := range all.Items {
		begin = append(begin, "topics/"+one.ID)
		if strings.HasSuffix(one.URL, "/page/1") {
			begin = append(begin, "notifications/"+one.Head.ID)
		}
	}
	for _, one := range h.inState("failing", 5) {
		begin = append(begin, "subscriptions/"+one.ID)
	}
	walk{
		state: "hostile", h: h, begin: begin, each: 60,
		status: map[string]int{"find?q": anyStatus, "missing/" + hostile[0]: http.StatusNotFound},
		says: map[string][]string{
			"subscriptions/ID": {"<script>" + marker}, "topics/ID": {"127.0.0.1:2"}, "notifications/ID": {"<script>" + marker}, "refusals": {"publish"},
			"subscriptions": {"hostile"}, "now": {"subscriptions fail"}, "streams": {marker + "=1"}, "streams?topic": {"of this topic"}, "subscriptions?host": {}, "missing/" + hostile[0]: {"There is no page"},
		},
	}.do(t)
}
