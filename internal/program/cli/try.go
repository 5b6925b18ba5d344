package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

const (
	tryWithin    = time.Minute
	tryAgain     = time.Second
	recordedPoll = 20 * time.Millisecond
	maxTryAnswer = 64 << 10
)

// Try is `rshub try`.
func Try(env Env) *cobra.Command {
	var listen, host, hub string
	within := Span(tryWithin)
	cmd := &cobra.Command{
		Use: "try", Short: "Publish a notification through a running hub, and receive it", Args: NoArguments,
		Long: `Publishes a notification through a running hub, and receives it. The command acts as a
Source and a subscriber: it serves a topic and a callback, subscribes with a
secret, publishes, and checks the delivery and its signature. Then it removes the
topic with its subscription.

The hub has to reach this command. It calls private addresses only in the ranges
of its --allow-cidr.`,
		Example: `  rshub try
  rshub try --listen :8098 --host 10.1.2.3 --hub http://10.1.2.4:8080/`,
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8098", "`ADDR` to listen on")
	cmd.Flags().StringVar(&host, "host", "", "`HOST` or address under which the hub reaches this command (default: that of --listen)")
	cmd.Flags().StringVar(&hub, "hub", "", "`URL` at which to reach the hub (default: its public URL)")
	cmd.Flags().Var(Positive(&within), "timeout", "give up after this `TIME`")
	return new(clientFlags).onHub(env, jsonWhole, cmd, func(r *run, _ []string) error {
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), time.Duration(within), Fail(ExitFailure, "not done after %s", within.String()))
		defer cancel()
		_, info, err := ask(ctx, r.client, "/api/v1/info", "it does not report the hub's URL", func(i admin.Info) bool { return i.HubURL != "" })
		if err != nil {
			return err
		}
		l, err := Listen(ctx, "--listen", listen)
		if err != nil {
			return err
		}
		at, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return err
		}
		t := newTryout(info.HubURL, cmp.Or(hub, info.HubURL), "http://"+net.JoinHostPort(cmp.Or(host, at), port)+"/"+rand.Text())
		s := newServer("try", nil)
		s.Listener = l
		s.Serve(ctx, t)
		defer s.Stop(cmd.Context(), time.Second)
		result, err := t.run(ctx)
		if err == nil {
			err = t.recorded(ctx, r.client)
		}
		// The time that is over must not keep the topic.
		if forgotten := t.forget(context.WithoutCancel(ctx), r.client); err == nil {
			err = forgotten
		}
		switch {
		case err != nil:
			return err
		case r.json:
			return WriteJSON(cmd.OutOrStdout(), result)
		}
		say(cmd.OutOrStdout(), "Published %s through %s, and received them after %s with the right signature.\n",
			quantity.BytesText(result.Bytes), Line(t.hub), time.Duration(result.Seconds*float64(time.Second)).Round(time.Millisecond))
		return nil
	})
}

// tryout is a Source and a subscriber, for one notification.
type tryout struct {
	hub, at                 string // the hub URI, and where the hub is reached
	topic, callback, secret string
	document                []byte
	web                     *http.Client

	published bool
	verified  chan error    // the hub asked the callback, or denied the subscription
	delivered chan delivery // each delivery
}

// delivery is what the callback received.
type delivery struct {
	body      []byte
	signature string
}

// tried is the result of a tryout.
type tried struct {
	Hub     string  `json:"hub"`
	Topic   string  `json:"topic"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"` // from the publish to the delivery
}

func newTryout(hub, at, base string) *tryout {
	return &tryout{
		hub: hub, at: at, topic: base + "/topic", callback: base + "/callback", secret: rand.Text(),
		web:      &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		verified: make(chan error, 1), delivered: make(chan delivery, 1),
	}
}

// run subscribes, publishes, and waits for the delivery.
func (t *tryout) run(ctx context.Context) (tried, error) {
	if err := t.write(); err != nil {
		return tried{}, err
	}
	form := url.Values{
		websub.ParamMode: {string(websub.ModeSubscribe)}, websub.ParamTopic: {t.topic}, websub.ParamCallback: {t.callback},
		websub.ParamSecret: {t.secret}, websub.ParamLeaseSeconds: {"300"},
	}
	// A Service or proxy may take a moment until it leads to a hub that has just started.
	for {
		err := t.post(ctx, "subscribing", http.StatusAccepted, "application/x-www-form-urlencoded", []byte(form.Encode()))
		if err == nil {
			break
		}
		if e := (*Error)(nil); !errors.As(err, &e) || e.Code != ExitUnreachable || !clock.Sleep(ctx, tryAgain) {
			return tried{}, err
		}
	}
	select {
	case err := <-t.verified:
		if err != nil {
			return tried{}, err
		}
	case <-ctx.Done():
		return tried{}, fmt.Errorf("the hub does not ask the callback %s whether it wants the subscription: %w", t.callback, context.Cause(ctx))
	}
	began := time.Now()
	if err := t.post(ctx, "publishing", http.StatusOK, "application/xml", t.document); err != nil {
		return tried{}, err
	}
	t.published = true
	select {
	case d := <-t.delivered:
		if !bytes.Equal(d.body, t.document) {
			return tried{}, Fail(ExitFailure, "the hub delivered something else: %s", excerpt.Of(d.body, maxExcerpt))
		}
		if err := websub.VerifySignature(d.signature, t.secret, d.body); err != nil {
			return tried{}, Fail(ExitFailure, "the signature of the delivery: %w", err)
		}
		return tried{t.hub, t.topic, int64(len(d.body)), time.Since(began).Seconds()}, nil
	case <-ctx.Done():
		return tried{}, fmt.Errorf("the hub accepted the notification, but does not deliver it to %s: %w", t.callback, context.Cause(ctx))
	}
}

// write writes the notification.
func (t *tryout) write() error {
	now := time.Now().UTC().Truncate(time.Second)
	var out bytes.Buffer
	w, err := resourcesync.NewWriter(&out, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: now.Add(-time.Second), Until: now}, resourcesync.WriteOptions{})
	if err == nil {
		err = w.Write(resourcesync.Entry{Loc: t.topic + "/resource", Change: resourcesync.Updated, Datetime: now})
	}
	if err == nil {
		err = w.Close()
	}
	t.document = out.Bytes()
	return err
}

// post sends a request to the hub, which is to answer with a status.
func (t *tryout) post(ctx context.Context, doing string, want int, contentType string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.at, bytes.NewReader(body))
	if err != nil {
		return Fail(ExitUsage, "--hub: %w", err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Link", t.links())
	resp, err := t.web.Do(req)
	if err != nil {
		return Fail(ExitUnreachable, "%s: %w", doing, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	answer, err := egress.ReadBody(resp.Body, maxTryAnswer)
	if err != nil {
		return Fail(ExitUnreachable, "%s: %w", doing, err)
	}
	if resp.StatusCode != want {
		return Fail(ExitRefused, "%s: the hub answers %s: %s", doing, Line(resp.Status), excerpt.Of(answer, maxExcerpt))
	}
	return nil
}

func (t *tryout) links() string {
	return websub.FormatLinks(websub.Link{Target: t.topic, Rels: []string{websub.RelSelf}}, websub.Link{Target: t.hub, Rels: []string{websub.RelHub}})
}

// ServeHTTP serves the topic, and is the callback.
func (t *tryout) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch q := r.URL.Query(); {
	case strings.HasSuffix(t.topic, r.URL.Path): // the hub asks it with HEAD and GET
		w.Header().Set("Link", t.links())
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(t.document)
	case !strings.HasSuffix(t.callback, r.URL.Path) || q.Has(websub.ParamMode) && q.Get(websub.ParamTopic) != t.topic:
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		body, err := egress.ReadBody(r.Body, maxDelivery)
		if err != nil {
			http.Error(w, "The body could not be read.", http.StatusBadRequest)
			return
		}
		select {
		case t.delivered <- delivery{body, r.Header.Get(websub.HeaderSignature)}:
		default: // it came again
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		t.confirm(w, q)
	}
}

// confirm answers the hub when it asks whether the callback wants the subscription.
func (t *tryout) confirm(w http.ResponseWriter, q url.Values) {
	var answer error
	switch q.Get(websub.ParamMode) {
	case string(websub.ModeDenied):
		answer = Fail(ExitRefused, "the hub denies the subscription: %s", Line(q.Get(websub.ParamReason)))
	case string(websub.ModeSubscribe):
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = io.WriteString(w, q.Get(websub.ParamChallenge)) //nolint:gosec // plain text, marked as such
	default:
		http.Error(w, "This callback confirms only one subscription.", http.StatusNotFound)
		return
	}
	select {
	case t.verified <- answer:
	default: // it asks again, or denies what has ended
	}
}

// recorded waits until the hub has stored that it delivered the notification. If the topic
// were removed before, the hub would record a gap.
func (t *tryout) recorded(ctx context.Context, c *client) error {
	for {
		var page admin.Page[admin.Subscription]
		if err := c.get(ctx, subscriptions.path, url.Values{"topic": {t.topic}}, &page); err != nil {
			return err
		}
		if len(page.Items) == 1 && page.Items[0].Lag != nil && page.Items[0].Lag.Notifications == 0 {
			return nil
		}
		if !clock.Sleep(ctx, recordedPoll) {
			return fmt.Errorf("the hub delivered the notification, but does not record it: %w", context.Cause(ctx))
		}
	}
}

// forget removes the topic with its subscription, if the hub has it.
func (t *tryout) forget(ctx context.Context, c *client) error {
	for t.published {
		var done admin.Removal
		err := c.call(ctx, http.MethodDelete, topics.path+"/"+urlID(t.topic), url.Values{"force": {"true"}}, nil, &done)
		if e := (*Error)(nil); errors.As(err, &e) && e.Code == ExitNotFound {
			return nil
		}
		if err != nil {
			return fmt.Errorf("removing the topic %s: %w", t.topic, err)
		}
		t.published = !done.Removed
	}
	return nil
}
