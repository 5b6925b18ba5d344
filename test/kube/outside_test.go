package kube

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const secret = "a secret of the subscriber"

// outside is a Source and a subscriber on the internet, and the way from there to a hub in the cluster.
type outside struct {
	hub   string // URL
	topic string // URL
	web   *http.Client

	mu       sync.Mutex
	document []byte // what the topic serves
	until    time.Time
	verified int
	sent     []string          // the until of each notification that the hub accepted
	received map[string]bool   // by the until of the notification
	wrong    map[string]string // deliveries with a wrong signature
	refused  []string          // the answers other than 200
}

// newOutside makes both, and leads http://hub.example.org/ to the Service of the release, as an
// Ingress does. Each test has a number, and addresses by it.
func newOutside(t *testing.T, c *cluster, namespace string, number int) *outside {
	t.Helper()
	at, entry := fmt.Sprintf("11.22.33.%d", 100+number), fmt.Sprintf("11.22.33.%d", number)
	o := &outside{hub: "http://hub.example.org/", topic: fmt.Sprintf("http://source%d.example.org/changes/", number), received: map[string]bool{}, wrong: map[string]string{}, until: time.Now().UTC().Truncate(time.Second).Add(-time.Hour)}
	c.node.names.set(fmt.Sprintf("source%d.example.org.", number), at)
	c.expose(t, namespace, "test-rshub", "hub.example.org", entry)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", at+":80")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: o, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	// A connection for each request, so that each may come to another pod.
	o.web = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, entry+":80")
		},
	}}
	return o
}

// expose leads http://HOST/ to a Service, as an Ingress with this address does.
func (c *cluster) expose(t *testing.T, namespace, service, host, ip string) {
	t.Helper()
	c.node.names.set(host+".", ip)
	ingress, err := forward(t.Context(), ip+":80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ingress.listener.Close() })
	go func() {
		for pause(t.Context(), tick) {
			if s, err := c.node.services.Services(namespace).Get(service); err == nil {
				ingress.set([]string{s.Spec.ClusterIP + ":80"})
			}
		}
	}()
}

// ServeHTTP serves the topic, confirms the subscription, and receives deliveries.
func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.URL.Path == "/changes/" {
		w.Header().Set("Link", o.links())
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(o.document)
		return
	}
	if r.Method == http.MethodGet {
		if q := r.URL.Query(); q.Get("hub.mode") == "subscribe" {
			o.verified++
			_, _ = io.WriteString(w, q.Get("hub.challenge"))
		}
		return
	}
	body, _ := io.ReadAll(r.Body)
	_, rest, _ := strings.Cut(string(body), ` until="`)
	until, _, _ := strings.Cut(rest, `"`)
	o.received[until] = true
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write(body)
	if got := r.Header.Get("X-Hub-Signature"); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		o.wrong[until] = got
	}
	w.WriteHeader(http.StatusNoContent)
}

func (o *outside) links() string {
	return fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, o.topic, o.hub)
}

// subscribe subscribes, and waits until the hub verified it.
func (o *outside) subscribe(t *testing.T) {
	t.Helper()
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {o.topic}, "hub.callback": {strings.TrimSuffix(o.topic, "changes/") + "callback"}, "hub.secret": {secret}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.hub, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := o.web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("subscribing: %s %s", resp.Status, answer)
	}
	eventually(t, 30*time.Second, "the subscription is verified", func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.verified == 0 {
			return fmt.Errorf("no verification")
		}
		return nil
	})
}

// publish publishes the next notification until the hub has it, as a Source does.
func (o *outside) publish(ctx context.Context) {
	o.mu.Lock()
	from, until := o.until.Format(time.RFC3339), o.until.Add(time.Second).Format(time.RFC3339)
	o.document = fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability="change-notification" from="%s" until="%s"/>
  <url><loc>%sa</loc><rs:md change="updated" datetime="%s"/></url>
</urlset>
`, from, until, o.topic, from)
	body := o.document
	o.mu.Unlock()
	for {
		err := o.post(ctx, body)
		o.mu.Lock()
		if err == nil {
			o.sent, o.until = append(o.sent, until), o.until.Add(time.Second)
			o.mu.Unlock()
			return
		}
		if ctx.Err() == nil {
			o.refused = append(o.refused, err.Error())
		}
		o.mu.Unlock()
		if !pause(ctx, 200*time.Millisecond) {
			return
		}
	}
}

func (o *outside) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.hub, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/xml")
	req.Header.Set("Link", o.links())
	resp, err := o.web.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return nil
}

// publishing publishes again and again while do runs.
func (o *outside) publishing(t *testing.T, do func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause(ctx, 100*time.Millisecond) {
			o.publish(ctx)
		}
	}()
	defer func() { // also if do fails the test
		stop()
		<-ended
	}()
	do()
}

// complete publishes once more, and waits until everything that the hub accepted was received.
func (o *outside) complete(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o.publish(ctx)
	eventually(t, time.Minute, "everything is delivered", func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		for i, until := range o.sent {
			if !o.received[until] {
				return fmt.Errorf("%d of %d are missing, the first is number %d; the hub refused %q", len(o.sent)-len(o.received), len(o.sent), i, o.refused)
			}
		}
		return nil
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.wrong) > 0 {
		t.Errorf("deliveries with a wrong signature: %v", o.wrong)
	}
	t.Logf("%d published and received", len(o.sent))
}

// refusals are the answers other than 200 that the Source got since the last call.
func (o *outside) refusals() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.refused
	o.refused = nil
	return all
}

// hubs are the pods of hubs that are ready, by their names.
func (c *cluster) hubs(t *testing.T, namespace string) map[string]*corev1.Pod {
	t.Helper()
	all, err := c.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=hub"})
	if err != nil {
		t.Fatal(err)
	}
	ready := map[string]*corev1.Pod{}
	for i := range all.Items {
		if p := &all.Items[i]; isReady(p) {
			ready[p.Name] = p
		}
	}
	return ready
}

// env is a variable of a hub's pod.
func env(p *corev1.Pod, name string) string {
	for _, e := range p.Spec.Containers[0].Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}
