package hub

import (
	"net/http"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// maxRelayed is how many links are relayed beside self and hub.
const maxRelayed = 4

// links reads the Link headers: the topic, this hub, and what is relayed
// (HUB-51, HUB-44).
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
		p.topic = "" // nothing to be repeated in the log
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

// maxShown is how many characters are repeated of what was sent.
const maxShown = 300

// shown is what was sent as it is repeated to whoever sent it: in one line, not too
// long, and without what stands before the host in a URL, which may be a password.
func shown(sent string) string {
	if at := strings.LastIndexByte(sent, '@'); at >= 0 {
		before, _, _ := strings.Cut(sent[:at], "://")
		sent = before + "://…" + sent[at:]
	}
	return egress.Excerpt([]byte(sent), maxShown)
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
