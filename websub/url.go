package websub

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxURL is how long a topic or a callback may be, in bytes.
const MaxURL = 2048

// maxHost is how long a host may be: no name of the DNS is longer (RFC 1035, 2.3.4). It
// bounds what is stored about hosts, of which there may be very many.
const maxHost = 253

// CheckURL checks that raw can be a topic or a callback (HUB-02, HUB-04): an absolute
// http or https URL with a host, without user name, password or fragment, of at most
// MaxURL bytes, and of characters that may stand in a URL and in a Link header. An error
// is a *FormError that begins with param. It resolves no name: the client that connects
// checks where the URL leads.
func CheckURL(param, raw string) error {
	if raw == "" {
		return formError(param, "is empty: send an absolute http or https URL")
	}
	if len(raw) > MaxURL {
		return formError(param, "is %d bytes long: send a URL of at most %d bytes", len(raw), MaxURL)
	}
	if strings.TrimSpace(raw) != raw {
		return formError(param, "has a space or a line end before or after the URL: send the URL alone")
	}
	for i := range len(raw) {
		if raw[i] >= utf8.RuneSelf && inHost(raw, i) {
			return formError(param, "has letters in its host that are not ASCII: send the host in its xn-- form, such as xn--bcher-kva.example")
		}
		if !urlByte(raw[i]) {
			return formError(param, "has the character 0x%02X at byte %d, which no URL may have as it is: percent-encode it in the URL itself", raw[i], i+1)
		}
	}
	// Look for the fragment in the text: an empty one leaves no trace in the parsed URL.
	if strings.Contains(raw, "#") {
		return formError(param, "has a fragment: send the URL without the # and what follows it")
	}
	u, err := url.Parse(raw)
	switch {
	case encodedWhole(raw):
		return formError(param, "is percent-encoded once too often: decoded once, it has to begin with http:// or https://")
	case err != nil && brokenEscape(pathOf(raw)):
		return formError(param, "has a %% in its path that no two hexadecimal digits follow: write a %% that stands for itself as %%25 in the URL itself")
	case err != nil:
		// The error itself contains the URL, which may be a secret of its owner.
		return formError(param, "can't be read as a URL: send an absolute URL such as https://example.org/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return formError(param, "is not an http or https URL: send an absolute URL such as https://example.org/path")
	case u.User != nil:
		return formError(param, "has a user name or password before the host: send the URL without what ends in @")
	case u.Hostname() == "":
		return formError(param, "has no host: send an absolute URL such as https://example.org/path")
	case len(strings.TrimSuffix(u.Hostname(), ".")) > maxHost:
		return formError(param, "has a host of more than %d characters, which no name of the DNS has: send the URL of a host that exists", maxHost)
	case strings.Contains(u.Host, "%") || strings.ContainsFunc(u.Host, func(r rune) bool { return r > '~' }):
		return formError(param, "has a percent escape in its host: send the host in ASCII, a name in other letters in its xn-- form, and an address without a zone")
	case pathOf(raw) != u.EscapedPath():
		// It would be sent in another spelling than it was received (HUB-40).
		return formError(param, "has a character in its path that no path may have as it is, such as { or |: percent-encode it in the URL itself")
	case !portOK(u.Port()):
		return formError(param, "has a port that does not exist: send one from 1 to 65535, or none")
	}
	return nil
}

// encodedWhole reports whether raw is a URL whose punctuation is percent-encoded, too.
func encodedWhole(raw string) bool {
	scheme, _, ok := strings.Cut(strings.ToLower(raw[:min(len(raw), len("https%3a"))]), "%3a")
	return ok && (scheme == "http" || scheme == "https")
}

// brokenEscape reports whether s has a % without the two hexadecimal digits of an escape.
func brokenEscape(s string) bool {
	_, err := url.PathUnescape(s)
	return err != nil
}

// inHost reports whether byte i of an absolute URL is before its path and query.
func inHost(raw string, i int) bool {
	_, before, ok := strings.Cut(raw[:i], "://")
	return ok && !strings.ContainsAny(before, "/?#")
}

// pathOf returns the path of an absolute URL without a fragment, as it is written.
func pathOf(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	rest, _, _ = strings.Cut(rest, "?")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return ""
}

// HubURL returns the form of a hub's URL in which two are compared: with "/" where its
// path is empty (RFC 3986, 6.2.3). Nothing else is changed, and anything that is no http
// or https URL is returned as it is. Topics and callbacks are compared as they are sent
// (HUB-04).
func HubURL(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return raw
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if end == 0 || strings.HasPrefix(rest[end:], "/") {
		return raw
	}
	end += len(scheme) + len("://")
	return raw[:end] + "/" + raw[end:]
}

// HasHub reports whether a hub is among hubs, by HubURL.
func HasHub(hubs []string, hub string) bool {
	hub = HubURL(hub)
	return slices.ContainsFunc(hubs, func(h string) bool { return HubURL(h) == hub })
}

func portOK(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// urlByte reports whether a byte may stand for itself in a URL and in the angle
// brackets of a Link header. A few that RFC 3986 rules out but the web uses in
// queries, such as | and {, may.
func urlByte(c byte) bool {
	return c > ' ' && c < 0x7f && c != '<' && c != '>' && c != '"' && c != '\\'
}

// AppendQuery appends parameters to the query of a URL. What is there is
// neither reordered nor encoded anew, and parameters of the same name stay
// (HUB-23); names and values are percent-encoded, a space as %20. A fragment
// stays at the end.
func AppendQuery(rawURL string, params ...Param) string {
	base, fragment, hasFragment := strings.Cut(rawURL, "#")
	var b strings.Builder
	b.WriteString(base)
	separator := "&"
	if _, query, hasQuery := strings.Cut(base, "?"); !hasQuery {
		separator = "?"
	} else if query == "" || strings.HasSuffix(query, "&") {
		separator = ""
	}
	for _, p := range params {
		b.WriteString(separator)
		b.WriteString(escape(p.Name))
		b.WriteByte('=')
		b.WriteString(escape(p.Value))
		separator = "&"
	}
	if hasFragment {
		b.WriteByte('#')
		b.WriteString(fragment)
	}
	return b.String()
}

// escape encodes for a query. Readers get the same text whether or not they read a plus
// sign as a space.
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
