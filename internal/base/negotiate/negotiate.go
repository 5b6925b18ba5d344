package negotiate

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Accept is a parsed Accept header.
type Accept []mediaRange

type mediaRange struct {
	media string
	q     float64
}

// maxRanges is how many media ranges of an Accept header are read.
const maxRanges = 32

// Media returns the Accept header of a request. It reads at most 32 ranges of it.
func Media(header http.Header) Accept {
	var a Accept
	for _, line := range header.Values("Accept") {
		for element := range strings.SplitSeq(line, ",") {
			if len(a) == maxRanges {
				return a
			}
			media, params, _ := strings.Cut(element, ";")
			if strings.TrimSpace(media) == "" {
				continue
			}
			r := mediaRange{media: strings.ToLower(strings.TrimSpace(media)), q: 1}
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

// Accepts reports whether the client accepts one of the media types. A request that names none in
// Accept accepts all.
func (a Accept) Accepts(media ...string) bool { return len(a) == 0 || a.Quality(media...) > 0 }

// Prefers reports whether one of the media types is more welcome than plain text, which is
// the default.
func (a Accept) Prefers(media ...string) bool { return a.Quality(media...) > a.Quality("text/plain") }

// Quality returns the weight of the most welcome of some media types.
func (a Accept) Quality(media ...string) (best float64) {
	for _, m := range media {
		best = max(best, a.quality(m))
	}
	return best
}

// quality returns the weight of a media type, from the most specific range that has it (RFC
// 9110, 12.5.1).
func (a Accept) quality(media string) float64 {
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

// Refuse answers a request that is refused: with a sentence (HUB-14), or with a problem (RFC 9457) as
// JSON if Accept prefers that. No cache may store it.
func Refuse(w http.ResponseWriter, r *http.Request, status int, sentence string, problem any) {
	media, body := "text/plain; charset=utf-8", sentence+"\n"
	if Media(r.Header).Prefers("application/problem+json", "application/json") {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(problem) // strings and numbers always encode
		media, body = "application/problem+json", b.String()
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // the client may have disconnected
	}
}

// Gzip reports whether an answer may be compressed, by the Accept-Encoding of a request. It may
// not if the client says nothing or prefers identity.
func Gzip(header http.Header) bool {
	const unsaid = -1
	gzip, wildcard, identity := float64(unsaid), float64(unsaid), 0.0
	for element := range strings.SplitSeq(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		coding, params, _ := strings.Cut(element, ";")
		q := 1.0
		if v, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(params, " ", "")), "q="); ok {
			var err error
			if q, err = strconv.ParseFloat(v, 64); err != nil || !(q >= 0 && q <= 1) {
				q = 0
			}
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			gzip = max(gzip, q)
		case "*":
			wildcard = q
		case "identity":
			identity = q
		}
	}
	if gzip == unsaid {
		gzip = wildcard
	}
	return gzip > 0 && gzip >= identity
}
