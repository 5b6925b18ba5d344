package hub

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// admit is the first stage: everything that can be decided before the body is read.
func (h *Handler) admit(_ context.Context, p *publication) error {
	r := p.r
	addr := h.proxies.Requester(r)
	p.network, p.bodyLength = ingress.Network(addr), max(r.ContentLength, 0)
	if h.draining.Load() {
		return refuse(drainingHub, "This hub is shutting down and accepts no more notifications. Try again in a moment.")
	}
	if err := h.links(r.Header, p); err != nil {
		return err
	}
	if err := h.checkTopic(p.topic); err != nil {
		return err
	}
	publisher, refused := h.credential(r.Header, p)
	known := refused == nil && publisher != ""
	p.publisher, p.publisherKey, p.hostKey = publisher, addressKey(addr), topicHostKey(egress.HostPortOf(p.topic), known)
	if known {
		p.publisherKey = "publisher " + publisher
	}
	now := h.o.Now()
	if err := h.byPublisher.allow(now, p.publisherKey, "from you"); err != nil {
		return err
	}
	if refused != nil { // after the rate, so that guesses count
		return refused
	}
	if err := h.byTopicHost.allow(now, p.hostKey, "to the topic's host"); err != nil {
		return err
	}
	if err := h.checkBytes(now, p, max(r.ContentLength, 1)); err != nil {
		return err
	}
	p.location = r.Header.Get("Content-Location")
	p.mediaType = r.Header.Get("Content-Type")
	return nil
}

// checkBytes refuses a body of n bytes that is over the limits in bytes. It counts none
// yet: the bytes count as they arrive.
func (h *Handler) checkBytes(now time.Time, p *publication, n int64) error {
	if err := h.bytesByPublisher.check(now, p.publisherKey, "from you", n); err != nil {
		return err
	}
	return h.bytesByTopicHost.check(now, p.hostKey, "to the topic's host", n)
}

// maxRelayed is how many links are relayed besides self and hub.
const maxRelayed = 4

// links reads the Link headers: the topic, this hub, and the links to relay (HUB-51,
// HUB-44).
func (h *Handler) links(header http.Header, p *publication) error {
	const none = "There is no %s. Send Link: <topic>; rel=\"self\", <%s>; rel=\"hub\"."
	sent := header.Values("Link")
	if len(sent) == 0 {
		return refuse(badLink, none, "Link header, which names the topic and this hub", h.o.HubURL)
	}
	links := websub.ParseLinks(sent)
	for _, self := range websub.Targets(links, websub.RelSelf) {
		if p.topic != "" && self != p.topic {
			return refuse(badLink, `Link names two topics with rel="self"; send each notification to one.`)
		}
		p.topic = self
	}
	if p.topic == "" {
		return refuse(badLink, none, `rel="self", which names the topic, in `+shown("Link: "+strings.Join(sent, ", ")), h.o.HubURL)
	}
	if err := websub.CheckURL(`the topic (Link rel="self")`, p.topic); err != nil {
		p.topic = "" // it must not be repeated in the log
		return refuse(badLink, "%s", sentence(err.Error()))
	}
	hubs := websub.Targets(links, websub.RelHub)
	if len(hubs) == 0 {
		return refuse(badLink, none, `rel="hub", which names this hub, in `+shown("Link: "+strings.Join(sent, ", ")), h.o.HubURL)
	}
	if !websub.HasHub(hubs, h.o.HubURL) {
		return refuse(badLink, `%s, and not this hub. Hubs are compared character by character: send <%s>; rel="hub".`,
			shown(`The rel="hub" of Link is <`+strings.Join(hubs, "> and <")+">"), h.o.HubURL)
	}
	p.relay(websub.Targets(links, websub.RelResourceSync))
	return nil
}

// maxShown is how many characters an answer repeats of what was sent.
const maxShown = 300

// shown is how an answer repeats what was sent: on one line, not too long, and without
// what is before the host in a URL, which may be a password.
func shown(sent string) string {
	if at := strings.LastIndexByte(sent, '@'); at >= 0 {
		before, _, _ := strings.Cut(sent[:at], "://")
		sent = before + "://…" + sent[at:]
	}
	return excerpt.Of([]byte(sent), maxShown)
}

// relay keeps the links that are delivered besides self and hub (HUB-44).
func (p *publication) relay(targets []string) {
	for _, target := range targets {
		if len(p.relayed) < maxRelayed && websub.CheckURL("", target) == nil {
			p.relayed = append(p.relayed, websub.Link{Target: target, Rels: []string{websub.RelResourceSync}}.String())
		}
	}
}

// credential reads the publisher's credential from the headers (HUB-53), and notes in p
// what is left to check: a signature, or the topic's content. It returns the publisher of
// the token, even if the token does not cover the topic; empty: there is no token. An error
// is final: if a credential is wrong, the content is not compared instead.
func (h *Handler) credential(header http.Header, p *publication) (publisher string, err error) {
	auth := h.o.Auth
	tokens, signature := header.Values("Authorization"), header.Values(websub.HeaderSignature)
	if auth.Token && len(signature) > 0 {
		if len(signature) > 1 || signature[0] == "" {
			return "", validate.ErrUnknownCredential
		}
		p.signature = signature[0]
	}
	if auth.Token && len(tokens) > 0 {
		token, ok := ingress.Bearer(tokens[0])
		if len(tokens) > 1 || !ok {
			return "", validate.ErrUnknownCredential
		}
		known, err := h.o.Publishers.ByToken(token, p.topic)
		return known.Name, err
	}
	switch {
	case p.signature != "" || auth.Open:
	case auth.Content:
		p.byContent = true
	default:
		return "", refuse(noCredential, "Publishing here needs a credential: a bearer token, or X-Hub-Signature made with the secret that you share with this hub. Ask its operator for one.")
	}
	return "", nil
}
