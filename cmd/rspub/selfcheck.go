package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/websub"
)

// checkTimeout bounds each request of the checks at start.
const checkTimeout = 10 * time.Second

// checkSelf checks, as a hub would, whether the public URL leads to this Source and whether the
// hubs can be reached. It logs warnings that say what to do. It does not fail, because the
// problem can be fixed while the Source runs.
func (f *serveFlags) checkSelf(ctx context.Context, s *source.Source, log *slog.Logger) {
	// No guard is needed, because it is this Source's own URL.
	own := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer own.CloseIdleConnections()
	if why := leadsHere(ctx, own, s); why != "" && ctx.Err() == nil {
		log.Warn("the public URL does not lead to this Source, so neither hubs nor subscribers will find it: "+why+
			". Give the address that others use with --public-url, and let the proxy pass its whole path on to --listen", "event", "public_url_unreachable", "url", f.publicURL)
	}
	for _, topic := range s.Topics() {
		if why := namesHubs(ctx, own, topic, s.Hubs(topic)); why != "" && ctx.Err() == nil {
			log.Warn("hubs will refuse these publishes: "+why, "event", "topic_check_failing", "topic", topic)
		}
	}
	client, err := clientOf(&f.call)
	if err != nil {
		return // it was tested before
	}
	for _, hub := range f.hubs.urls {
		if why := hubAnswers(ctx, client, hub); why != "" && ctx.Err() == nil {
			log.Warn("the hub can't be reached: "+why+". Changes are stored, and sent when it answers", "event", "hub_unreachable", "hub", hub)
		}
	}
}

// leadsHere fetches the Source Description from outside. It returns what is wrong.
func leadsHere(ctx context.Context, client web.Doer, s *source.Source) string {
	want, err := s.Description()
	if err != nil {
		return err.Error()
	}
	status, _, body, err := ask(ctx, client, http.MethodGet, s.DescriptionURL(), nil)
	switch {
	case err != nil:
		return err.Error()
	case status != http.StatusOK:
		return fmt.Sprintf("%s answers %d", s.DescriptionURL(), status)
	case !bytes.Equal(body, want):
		return fmt.Sprintf("%s is the Source Description of another Source", s.DescriptionURL())
	}
	return ""
}

// namesHubs checks a topic as a hub does before it accepts a notification (HUB-53). It returns
// what is wrong and what to do.
func namesHubs(ctx context.Context, client web.Doer, topic string, hubs []string) string {
	status, header, _, err := ask(ctx, client, http.MethodHead, topic, func(string) error { return errors.New("hubs do not follow a topic's redirect") })
	switch {
	case err != nil:
		return fmt.Sprintf("the topic %v. Its URL, like all URLs below --public-url, must lead to this Source", err)
	case status != http.StatusOK:
		return fmt.Sprintf("the topic %s answers %d. Its URL, like all URLs below --public-url, must lead to this Source", topic, status)
	}
	const mend = "A proxy in front of rspub must not remove the Link header of answers"
	links := websub.ParseLinks(header.Values("Link"))
	if self := websub.Targets(links, websub.RelSelf); !slices.Equal(self, []string{topic}) {
		return fmt.Sprintf("the answer of the topic %s does not name it as self. %s", topic, mend)
	}
	for _, hub := range hubs {
		if !websub.HasHub(websub.Targets(links, websub.RelHub), hub) {
			return fmt.Sprintf("the answer of the topic %s does not name the hub %s. %s", topic, hub, mend)
		}
	}
	return ""
}

// hubAnswers requests the page of a hub. It accepts any answer except a server error and those
// that show a wrong address.
func hubAnswers(ctx context.Context, client web.Doer, hub string) string {
	status, _, _, err := ask(ctx, client, http.MethodGet, hub, nil)
	switch {
	case egress.DevWouldAllow(err):
		return err.Error() + ". " + egress.DevHint
	case err != nil:
		return err.Error()
	case status == http.StatusNotFound:
		return "it answers 404, as if there were no hub at this URL; --hub must be the hub's own public URL"
	case status >= 500:
		return fmt.Sprintf("it answers %d", status)
	}
	return ""
}

// maxChecked is how much is read of an answer.
const maxChecked = 1 << 20

// ask asks as hubs and subscribers do. Allow says where redirects may lead; nil: anywhere. An
// error names the URL.
func ask(ctx context.Context, client web.Doer, method, url string, allow func(next string) error) (status int, header http.Header, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answer, err := web.Ask(ctx, client, web.Request{Method: method, URL: url, Header: http.Header{"Accept-Encoding": {"identity"}}, Allow: allow})
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }() // only read
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxChecked))
	if err != nil {
		err = fmt.Errorf("%s: %w", url, err)
	}
	return answer.StatusCode, answer.Header, body, err
}
