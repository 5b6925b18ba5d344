package hub

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its text
	"encoding/base64"
	htmltemplate "html/template"
	"net/http"
	"text/template"

	"github.com/rshub/rshub/internal/base/negotiate"
)

var (
	//go:embed landing.html
	landingHTML string
	//go:embed landing.css
	landingCSS string
	//go:embed landing.txt
	landingText string
)

// landing is the answer to a GET of the hub URI, as text and as a page.
type landing struct{ html, text, policy string }

// newLanding fills in the hub's URL, and what authorises a publish.
func newLanding(hubURL string, auth PublishAuth) (landing, error) {
	page, err := htmltemplate.New("landing.html").Parse(landingHTML)
	if err != nil {
		return landing{}, err
	}
	text, err := template.New("landing.txt").Parse(landingText)
	if err != nil {
		return landing{}, err
	}
	data := struct {
		Hub  string
		Auth PublishAuth
		CSS  htmltemplate.CSS
	}{hubURL, auth, htmltemplate.CSS(landingCSS)} //nolint:gosec // our own file
	var h, t bytes.Buffer
	if err := page.Execute(&h, data); err != nil {
		return landing{}, err
	}
	if err := text.Execute(&t, data); err != nil {
		return landing{}, err
	}
	style := sha256.Sum256([]byte(landingCSS))
	return landing{
		html: h.String(), text: t.String(),
		policy: "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" +
			base64.StdEncoding.EncodeToString(style[:]) + "'",
	}, nil
}

// serve answers a GET or a HEAD: with the page if Accept prefers HTML, otherwise with the
// text.
func (l *landing) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", l.policy)
	header.Set("Cache-Control", "max-age=300")
	if negotiate.Media(r.Header).Prefers("text/html") {
		answer(w, "text/html; charset=utf-8", http.StatusOK, l.html)
		return
	}
	answer(w, "text/plain; charset=utf-8", http.StatusOK, l.text)
}
