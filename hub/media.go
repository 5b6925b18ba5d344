package hub

import (
	"mime"
	"net/http"
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
		// The answer does not repeat it, as it may be a secret that went astray.
		is := "This hub does not read that Content-Type"
		if len(values) == 0 {
			is = "There is no Content-Type"
		}
		return "", refuse(unsupportedMediaType,
			"%s. It has to be %s for a notification, and %s for a subscription request or a ping, with the parameters in the body.", is, mediaXML, mediaForm)
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
