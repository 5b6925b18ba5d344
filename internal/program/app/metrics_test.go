package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/subscriptions"
)

// figures is a scrape: values by name and labels.
type figures map[string]float64

func (m *metered) figures() figures {
	m.t.Helper()
	code, body := get(m.t, "http://"+m.AdminAddr()+"/metrics")
	if code != http.StatusOK {
		m.t.Fatalf("/metrics: %d %s", code, body)
	}
	if len(body) > 100_000 {
		m.t.Errorf("a scrape has %d bytes", len(body))
	}
	out := make(figures)
	for line := range strings.Lines(body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				m.t.Fatalf("%s: %v", line, err)
			}
			out[name] = v
		}
	}
	return out
}

// metered is a running hub whose figures are watched.
type metered struct {
	*App
	t *testing.T
}

const meteredTopic = "http://127.0.0.1:2/topic"

func startMetered(t *testing.T) *metered {
	t.Helper()
	m := &metered{t: t, App: newApp(t, "--topic-check=off", "--continuity=flag",
		"--retry-first=200ms", "--retry-max=200ms", "--give-up=5s", "--timeout=2s")}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// moves does something and waits until all figures have grown.
func (m *metered) moves(what string, do func(), names ...string) {
	m.t.Helper()
	before := m.figures()
	for _, name := range names {
		if _, ok := before[name]; !ok {
			m.t.Errorf("%s: there is no %s from the start", what, name)
		}
	}
	do()
	m.until(what, func(now figures) string {
		for _, name := range names {
			if now[name] <= before[name] {
				return fmt.Sprintf("%s stays at %v", name, now[name])
			}
		}
		return ""
	})
}

// until waits until nothing is missing.
func (m *metered) until(what string, missing func(figures) string) {
	m.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		wrong := missing(m.figures())
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			m.t.Errorf("%s: %s", what, wrong)
			return
		}
	}
}

func (m *metered) publish(from, until, want int) func() {
	return func() {
		m.t.Helper()
		link := fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, meteredTopic, m.HubURL())
		if status, _ := post(m.t, "http://"+m.Addr()+"/", "application/xml", notification(from, until), link); status != want {
			m.t.Errorf("publishing: %d, want %d", status, want)
		}
	}
}

func (m *metered) form(want int, pairs ...string) func() {
	return func() {
		m.t.Helper()
		values := url.Values{"hub.topic": {meteredTopic}}
		for i := 0; i < len(pairs); i += 2 {
			values.Set("hub."+pairs[i], pairs[i+1])
		}
		if status, _ := post(m.t, "http://"+m.Addr()+"/", "application/x-www-form-urlencoded", values.Encode(), ""); status != want {
			m.t.Errorf("%v: %d, want %d", pairs, status, want)
		}
	}
}

// callback is a subscriber that echoes challenges and gives deliveries to answer.
func (m *metered) callback(answer http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		answer(w, r)
	}))
	m.t.Cleanup(s.Close)
	return s
}

func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

const subscribeVerified = `rshub_verifications_total{outcome="verified"}`

// subscribe subscribes a callback and waits until it is in force.
func (m *metered) subscribe(callback string) {
	m.t.Helper()
	m.moves("subscribing "+callback, m.form(http.StatusAccepted, "mode", "subscribe", "callback", callback),
		`rshub_subscription_requests_total{mode="subscribe",outcome="accepted"}`, subscribeVerified,
		`rshub_store_operation_duration_seconds_count{operation="update"}`)
}

// Each figure moves when what it counts happens in a hub that runs.
func TestMetricsMove(t *testing.T) {
	m := startMetered(t)
	defer func() { _ = m.Stop(t.Context()) }() // without its store at the end
	m.until("ready", func(now figures) string {
		if now["rshub_shards_owned"] != 256 || now["rshub_hubs_live"] != 1 {
			return "it does not own all"
		}
		if now["rshub_ready"] != 1 {
			return "it is not"
		}
		return ""
	})
	m.requests()
	m.deliveries()
	m.endings()

	m.draining.Store(true)
	if ready := m.figures()["rshub_ready"]; ready != 0 {
		t.Errorf("ready while it drains: %v", ready)
	}
	if err := m.backend.Close(); err != nil {
		t.Fatal(err)
	}
	m.moves("a publish without a store", m.publish(50, 51, http.StatusServiceUnavailable),
		`rshub_publishes_total{outcome="store-unavailable"}`, `rshub_store_operation_errors_total{operation="head"}`)
}

func (m *metered) requests() {
	m.t.Helper()
	m.moves("a publish", m.publish(0, 1, http.StatusOK), `rshub_publishes_total{outcome="accepted"}`, "rshub_published_bytes_total",
		"rshub_publish_duration_seconds_count", `rshub_store_operation_duration_seconds_count{operation="append"}`)
	m.moves("a duplicate", m.publish(0, 1, http.StatusOK), `rshub_publishes_total{outcome="duplicate"}`)
	m.moves("a gap", m.publish(2, 3, http.StatusOK), `rshub_gaps_total{reason="source"}`)
	m.moves("an overlap", m.publish(1, 4, http.StatusConflict), `rshub_publishes_total{outcome="overlap"}`)
	m.moves("another media type", func() {
		if status, _ := post(m.t, "http://"+m.Addr()+"/", "text/csv", "a", ""); status != http.StatusUnsupportedMediaType {
			m.t.Errorf("%d", status)
		}
	}, `rshub_publishes_total{outcome="media-type"}`)
	m.moves("a ping, and a topic that is not there", m.form(http.StatusAccepted, "mode", "publish"),
		`rshub_pings_total{outcome="accepted"}`, `rshub_fetches_total{outcome="topic-unreachable"}`,
		`rshub_store_operation_duration_seconds_count{operation="ping"}`)
	m.moves("a callback that is never called", m.form(http.StatusForbidden, "mode", "subscribe", "callback", "http://169.254.169.254/"),
		`rshub_subscription_requests_total{mode="subscribe",outcome="refused"}`, `rshub_egress_refused_total{reason="metadata"}`)
	notMine := httptest.NewServer(http.NotFoundHandler())
	defer notMine.Close()
	m.moves("a callback that says no", m.form(http.StatusAccepted, "mode", "subscribe", "callback", notMine.URL),
		`rshub_verifications_total{outcome="failed"}`, `rshub_verifications_total{outcome="dropped"}`)
}

func (m *metered) deliveries() {
	m.t.Helper()
	held := make(chan struct{})
	slow := m.callback(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-held:
		case <-r.Context().Done():
		}
	})
	defer close(held)
	down := m.callback(answering(http.StatusOK))
	for _, callback := range []*httptest.Server{
		m.callback(answering(http.StatusOK)), m.callback(answering(http.StatusInternalServerError)),
		m.callback(answering(http.StatusBadRequest)), slow, down,
	} {
		m.subscribe(callback.URL)
	}
	down.Close()
	m.moves("deliveries", m.publish(3, 4, http.StatusOK),
		`rshub_deliveries_total{code="2xx",outcome="delivered"}`, "rshub_delivered_bytes_total", "rshub_delivery_latency_seconds_count",
		"rshub_delivery_duration_seconds_count", `rshub_deliveries_total{code="5xx",outcome="retry"}`,
		`rshub_deliveries_total{code="4xx",outcome="retry"}`, `rshub_deliveries_total{code="timeout",outcome="retry"}`,
		`rshub_deliveries_total{code="connect",outcome="retry"}`, "rshub_deliveries_in_flight",
		`rshub_store_operation_duration_seconds_count{operation="commit"}`)
	m.until("the census", func(now figures) string {
		for _, name := range []string{
			`rshub_subscriptions{state="active"}`, "rshub_subscription_census_timestamp_seconds", "rshub_topics", "rshub_callback_hosts",
		} {
			if now[name] == 0 {
				return name + " is 0"
			}
		}
		if n := now[`rshub_subscriptions{state="active"}`] + now[`rshub_subscriptions{state="failing"}`]; n != 5 || now["rshub_subscription_lag_seconds_count"] != 5 {
			return fmt.Sprintf("%v subscriptions", n)
		}
		return ""
	})
	m.until("giving up", func(now figures) string {
		for _, name := range []string{
			`rshub_deliveries_total{code="5xx",outcome="passed_over"}`, `rshub_deliveries_total{code="4xx",outcome="passed_over"}`,
			`rshub_gaps_total{reason="gave_up"}`, `rshub_gap_notifications_total{reason="gave_up"}`,
		} {
			if now[name] == 0 {
				return name + " is 0"
			}
		}
		return ""
	})
	for from := 4; from < 30; from++ { // so that some fail whenever they are counted
		m.publish(from, from+1, http.StatusOK)()
	}
	m.until("the lag", func(now figures) string {
		for _, name := range []string{
			`rshub_subscriptions{state="failing"}`, "rshub_subscription_lag_notifications_sum", "rshub_subscription_lag_seconds_sum",
			"rshub_subscription_lag_oldest_seconds", "rshub_subscription_failing_longest_seconds", "rshub_suspect_hosts", "rshub_deliveries_waiting",
		} {
			if now[name] == 0 {
				return name + " is 0"
			}
		}
		return ""
	})
}

func (m *metered) endings() {
	m.t.Helper()
	gone := m.callback(answering(http.StatusGone))
	m.subscribe(gone.URL)
	m.moves("a 410", m.publish(30, 31, http.StatusOK), `rshub_deliveries_total{code="4xx",outcome="ended"}`,
		`rshub_subscriptions_ended_total{reason="gone"}`, `rshub_gaps_total{reason="gone"}`)
	fine := m.callback(answering(http.StatusOK))
	m.subscribe(fine.URL)
	m.moves("an unsubscribe", m.form(http.StatusAccepted, "mode", "unsubscribe", "callback", fine.URL),
		`rshub_subscription_requests_total{mode="unsubscribe",outcome="accepted"}`, `rshub_verifications_total{outcome="unsubscribed"}`,
		`rshub_subscriptions_ended_total{reason="unsubscribed"}`, `rshub_subscriptions{state="ended"}`)
	m.subscribe(fine.URL)
	m.moves("a removal", func() {
		req, err := http.NewRequestWithContext(m.t.Context(), http.MethodDelete,
			fmt.Sprintf("http://%s/api/v1/subscriptions/%s", m.AdminAddr(), subscriptions.ID(meteredTopic, fine.URL)), nil)
		if err != nil {
			m.t.Fatal(err)
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			m.t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			m.t.Errorf("removing: %d", resp.StatusCode)
		}
	}, `rshub_subscriptions_ended_total{reason="removed"}`, `rshub_verifications_total{outcome="denied"}`)
}
