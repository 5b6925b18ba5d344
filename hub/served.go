package hub

import (
	"net/url"
	"path"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/validate"
)

// checkTopic refuses a topic that this hub does not serve: because of the patterns
// (HUB-16), or because the hub would call itself.
func (h *Handler) checkTopic(topic string) error {
	switch {
	case h.own.is(topic):
		return refuse(topicNotAllowed, "The topic %s is this hub itself, which has no content of its own; name the URL at which the Source serves its notifications.", topic)
	case validate.TouchesAny(h.o.TopicDeny, topic), len(h.o.TopicAllow) > 0 && !validate.MatchAny(h.o.TopicAllow, topic):
		return refuse(topicNotAllowed, "This hub does not serve the topic %s.", topic)
	}
	return nil
}

// ownURL recognises the hub's own URL in every spelling. Other paths of its host may
// belong to others behind the same proxy. If another name leads to the hub's listeners,
// the dialler refuses it (egress.Options.Own).
type ownURL struct{ host, path string }

func ownURLOf(u *url.URL) ownURL { return ownURL{eitherScheme(u), cleanPath(u)} }

func (o ownURL) is(rawURL string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && o.host == eitherScheme(u) && o.path == cleanPath(u)
}

// eitherScheme is the host and port of a URL. It is the same for http and https at
// their default ports.
func eitherScheme(u *url.URL) string {
	host := egress.HostPort(u)
	if name, ok := strings.CutSuffix(host, ":80"); ok {
		return name + ":443"
	}
	return host
}

func cleanPath(u *url.URL) string { return path.Clean("/" + u.Path) }
