package hub

import (
	"net/url"
	"path"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
)

// served refuses a topic that this hub does not serve: by the patterns (HUB-16),
// or since it would ask and call itself.
func (h *Handler) served(topic string) error {
	switch {
	case h.own.is(topic):
		return refuse(topicNotAllowed, "The topic %s is this hub itself, which has no content of its own; name the URL at which the Source serves its notifications.", topic)
	case !h.allowed(topic):
		return refuse(topicNotAllowed, "This hub does not serve the topic %s.", topic)
	}
	return nil
}

// ownURL knows the hub's own URL however it is written. Other paths of its host
// may be anybody's, behind one proxy. That no name leads to its listeners either
// is seen to when they are dialled (egress.Options.Own).
type ownURL struct{ host, path string }

func ownURLOf(u *url.URL) ownURL { return ownURL{eitherScheme(u), cleanPath(u)} }

func (o ownURL) is(rawURL string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && o.host == eitherScheme(u) && o.path == cleanPath(u)
}

// eitherScheme is the host and port of a URL, where http and https at their own
// ports are one.
func eitherScheme(u *url.URL) string {
	host := egress.HostPort(u)
	if name, ok := strings.CutSuffix(host, ":80"); ok {
		return name + ":443"
	}
	return host
}

func cleanPath(u *url.URL) string { return path.Clean("/" + u.Path) }
