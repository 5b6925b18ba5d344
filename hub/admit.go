package hub

import (
	"net/http"
	"strings"

	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// maxRelayed is how many links are relayed beside self and hub.
const maxRelayed = 4

// links reads the Link headers: the topic, this hub, and what is relayed
// (HUB-51, HUB-44).
func (h *Handler) links(header http.Header, p *publication) error {
	const want = `send Link: <topic>; rel="self", <%s>; rel="hub"`
	links := websub.ParseLinks(header.Values("Link"))
	for _, self := range websub.Targets(links, websub.RelSelf) {
		if p.topic != "" && self != p.topic {
			return refuse(badLink, `Link names two topics with rel="self"; send each notification to one.`)
		}
		p.topic = self
	}
	if p.topic == "" {
		return refuse(badLink, `There is no Link header with rel="self", which says what topic this is for; `+want+".", h.o.HubURL)
	}
	if err := websub.CheckURL(`the topic (Link rel="self")`, p.topic); err != nil {
		p.topic = "" // nothing to be repeated in the log
		return refuse(badLink, "%s", sentence(err.Error()))
	}
	named := false
	for _, hub := range websub.Targets(links, websub.RelHub) {
		named = named || hub == h.o.HubURL
	}
	if !named {
		return refuse(badLink, `There is no Link header with rel="hub" that is this hub, character by character; `+want+".", h.o.HubURL)
	}
	p.relay(websub.Targets(links, websub.RelResourceSync))
	return nil
}

// relay keeps the links that are delivered beside self and hub (HUB-44).
func (p *publication) relay(targets []string) {
	for _, target := range targets {
		if len(p.relayed) < maxRelayed && websub.CheckURL("", target) == nil {
			p.relayed = append(p.relayed, websub.Link{Target: target, Rels: []string{websub.RelResourceSync}}.String())
		}
	}
}

// credential reads what the headers say about who publishes (HUB-53), and notes
// in p what is still to be checked: a signature, or the topic's content. It
// returns the publisher whose token came along, also where that does not cover the
// topic; empty: there is no token. An error is final: a wrong credential never
// falls back to the content.
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
		scheme, token, _ := strings.Cut(tokens[0], " ")
		if len(tokens) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return "", validate.ErrUnknownCredential
		}
		known, err := h.o.Publishers.ByToken(strings.TrimSpace(token), p.topic)
		return known.Name, err
	}
	switch {
	case p.signature != "" || auth.Open:
	case auth.Content:
		p.byContent = true
	default:
		return "", refuse(noCredential, "Publishing here takes a credential: a bearer token, or X-Hub-Signature made with the secret you share with this hub. Its operator hands them out.")
	}
	return "", nil
}
