package hub

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The two media types that a POST may have.
const (
	mediaXML  = "application/xml"
	mediaForm = "application/x-www-form-urlencoded"
)

// mediaType returns which of the two a request is (HUB-01, HUB-50), or why it is
// neither.
func mediaType(header http.Header) (string, error) {
	if header.Get("Content-Encoding") != "" {
		return "", refuse(unsupportedMediaType, "Content-Encoding is not accepted; send the body as it is.")
	}
	values := header.Values("Content-Type")
	if len(values) > 1 {
		return "", refuse(unsupportedMediaType, "There are %d Content-Type headers; send one.", len(values))
	}
	media, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || media != mediaXML && media != mediaForm {
		return "", refuse(unsupportedMediaType,
			"Content-Type has to be %s for a notification or %s for a subscription request.", mediaXML, mediaForm)
	}
	charset, named := params["charset"]
	if named && !strings.EqualFold(charset, "utf-8") {
		return "", refuse(badCharset, "The charset has to be UTF-8, or not be given.")
	}
	if named {
		delete(params, "charset")
	}
	if media == mediaXML && len(params) > 0 {
		return "", refuse(unsupportedMediaType, "Content-Type %s takes no parameter but charset=utf-8.", mediaXML)
	}
	return media, nil
}

// accept is a parsed Accept header.
type accept []acceptRange

type acceptRange struct {
	media string
	q     float64
}

// maxRanges is how many media ranges of an Accept header are read.
const maxRanges = 32

func parseAccept(header http.Header) accept {
	var a accept
	for _, line := range header.Values("Accept") {
		for element := range strings.SplitSeq(line, ",") {
			if len(a) == maxRanges {
				return a
			}
			media, params, _ := strings.Cut(element, ";")
			r := acceptRange{media: strings.ToLower(strings.TrimSpace(media)), q: 1}
			for param := range strings.SplitSeq(params, ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
				if !strings.EqualFold(name, "q") {
					continue
				}
				q, err := strconv.ParseFloat(value, 64)
				if err != nil || !(q >= 0 && q <= 1) { // NaN, too
					q = 0
				}
				r.q = q
			}
			a = append(a, r)
		}
	}
	return a
}

// quality returns the weight of a media type, from the most specific range that has it (RFC
// 9110, 12.5.1).
func (a accept) quality(media string) float64 {
	major, _, _ := strings.Cut(media, "/")
	ranges := []string{"*/*", major + "/*", media} // the more specific ones last
	best, q := -1, 0.0
	for _, r := range a {
		if i := slices.Index(ranges, r.media); i > best {
			best, q = i, r.q
		}
	}
	return q
}

// prefers reports whether one of the media types is more welcome than plain text, which is
// the default.
func (a accept) prefers(media ...string) bool {
	return slices.ContainsFunc(media, func(m string) bool { return a.quality(m) > a.quality("text/plain") })
}
