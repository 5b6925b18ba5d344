package relay

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/rshub/rshub/internal/base/browser"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/base/strictjson"
	"github.com/rshub/rshub/publisher/source"
)

const (
	// smallBody is how long a body may be without a place, in bytes, and largeBodies how many
	// longer ones there may be at once. A connection sends one at a time.
	smallBody   = 64 << 10
	largeBodies = 16

	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"

	headerKey = "Idempotency-Key"
)

// refusal is an error with its status.
type refusal struct {
	status int
	error
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Errorf(format, args...)}
}

// Handler accepts a request as POST / and describes itself at GET /. It answers in JSON.
func (r *Relay) Handler() http.Handler { return http.HandlerFunc(r.serve) }

func (r *Relay) serve(w http.ResponseWriter, req *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	no := r.admit(req)
	switch {
	case no != nil:
	case req.URL.Path != "/":
		no = refuse(http.StatusNotFound, "there is nothing at this path; changes are sent to /")
	case req.Method == http.MethodGet || req.Method == http.MethodHead:
		head.Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, r.o.Hint) // the client went away
		return
	case req.Method != http.MethodPost:
		head.Set("Allow", "GET, HEAD, POST")
		no = refuse(http.StatusMethodNotAllowed, "changes are sent with POST")
	default:
		var a answer
		var is Outcome
		if a, is, no = r.post(w, req); no == nil {
			r.o.Counted(is)
			write(w, http.StatusOK, a)
			return
		}
	}
	is := Refused
	switch no.status {
	case http.StatusServiceUnavailable:
		is = Failed
		head.Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	case http.StatusUnauthorized:
		head.Set("WWW-Authenticate", `Bearer realm="rspub relay"`)
	}
	r.o.Counted(is)
	write(w, no.status, answer{Error: no.Error()})
}

func write(w http.ResponseWriter, status int, a answer) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	_, _ = w.Write(encode(a)) // the client went away, and may repeat its request
}

func encode(a answer) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(a) // strings and numbers
	return b.Bytes()
}

// browsers are the rules for what a page has a browser send.
var browsers = browser.NewGuard(browser.Local...)

// admit refuses requests that a page of another origin had a browser send, and those without the
// token.
func (r *Relay) admit(req *http.Request) *refusal {
	if err := browsers.Check(req); err != nil {
		return refuse(http.StatusForbidden, "%w, and so it is refused", err)
	}
	switch {
	case r.o.Token != nil:
		return r.authorise(req)
	case !r.o.Socket && !browser.IsLocal(req.Host):
		return refuse(http.StatusMisdirectedRequest, "without a token this listener answers only to the host names localhost, 127.0.0.1 and [::1]; use one of these, or give the relay a token")
	}
	return nil
}

func (r *Relay) authorise(req *http.Request) *refusal {
	token, ok := ingress.Bearer(req.Header.Get("Authorization"))
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(r.o.Token()))
	if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return refuse(http.StatusUnauthorized, "this needs the header \"Authorization: Bearer <token>\" with the token of the relay")
	}
	return nil
}

// post records the changes of a request.
func (r *Relay) post(w http.ResponseWriter, req *http.Request) (answer, Outcome, *refusal) {
	parse, no := parserOf(req.Header)
	if no != nil {
		return answer{}, "", no
	}
	key, err := keyOf(req.Header)
	if err != nil {
		return answer{}, "", &refusal{http.StatusBadRequest, err}
	}
	if req.ContentLength < 0 || req.ContentLength > smallBody {
		select {
		case r.bodies <- struct{}{}:
			defer func() { <-r.bodies }()
		case <-req.Context().Done():
			return answer{}, "", &refusal{http.StatusServiceUnavailable, errClosing}
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, MaxBytes))
	if err != nil {
		switch {
		case errors.As(err, new(*http.MaxBytesError)):
			return answer{}, "", refuse(http.StatusRequestEntityTooLarge, "a request may have %d MiB; send the changes in several", MaxBytes>>20)
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF):
			return answer{}, "", refuse(http.StatusServiceUnavailable, "the body did not arrive in full; send it again, with the same name if it has one")
		}
		return answer{}, "", refuse(http.StatusBadRequest, "the body cannot be read: %w", err)
	}
	changes, err := parse(body, r.o.Prefixes)
	switch {
	case errors.As(err, new(*strictjson.Malformed)), errors.As(err, new(*notForm)):
		return answer{}, "", &refusal{http.StatusBadRequest, err}
	case err != nil:
		return answer{}, "", &refusal{http.StatusUnprocessableEntity, err}
	}
	receipts, err := r.o.Record([]source.Announcement{announcement(key, changes)})
	switch {
	case errors.Is(err, source.ErrClosed):
		return answer{}, "", &refusal{http.StatusServiceUnavailable, errClosing}
	case err != nil:
		return answer{}, "", &refusal{http.StatusServiceUnavailable, notRecorded(err)}
	}
	a, is, err := outcome(receipts[0])
	switch {
	case errors.Is(err, source.ErrNameUsed):
		return a, is, &refusal{http.StatusUnprocessableEntity, err}
	case err != nil:
		return a, is, &refusal{http.StatusServiceUnavailable, err}
	}
	return a, is, nil
}

type parser func(body []byte, prefixes []string) ([]source.Given, error)

// parserOf returns the parser for the body of a request.
func parserOf(h http.Header) (parser, *refusal) {
	const what = "send a form (application/x-www-form-urlencoded) or JSON (application/json), in UTF-8 and without a Content-Encoding"
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	coded := h.Get("Content-Encoding")
	charset, given := params["charset"]
	switch {
	case err != nil, coded != "" && !strings.EqualFold(coded, "identity"), given && !strings.EqualFold(charset, "utf-8"):
	case media == formType:
		return parseForm, nil
	case media == jsonType:
		return parseJSON, nil
	}
	return nil, refuse(http.StatusUnsupportedMediaType, what)
}

// keyOf returns the name that the application gave its request; empty: none.
func keyOf(h http.Header) (string, error) {
	all := h.Values(headerKey)
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", fmt.Errorf("the header %s is there %d times", headerKey, len(all))
	}
	key := strings.TrimSpace(all[0])
	if n := len(key); n > 1 && key[0] == '"' && key[n-1] == '"' { // as the draft of the header has it
		key = key[1 : n-1]
	}
	if key == "" {
		return "", fmt.Errorf("the header %s is empty; leave it out, or give the request a name of its own", headerKey)
	}
	return key, checkKey("the header "+headerKey, key)
}
