package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/rshub/rshub/hub/history"
	"github.com/rshub/rshub/internal/base/browser"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/negotiate"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// kind is one way to be refused.
type kind struct {
	status int
	slug   string // the end of the problem's type
	title  string
}

// typeBase is where the kinds of problems are described.
const typeBase = "https://github.com/rshub/rshub/blob/main/docs/problems.md#"

// The ways to be refused, each explained in docs/problems.md. This and classify,
// which says which Go error is which of them, are the one table from errors to
// statuses.
var (
	badLink         = kind{http.StatusBadRequest, "bad-link", "The Link header does not say what is published where"}
	notWellFormed   = kind{http.StatusBadRequest, "not-well-formed", "The body is not well-formed XML"}
	documentType    = kind{http.StatusBadRequest, "document-type", "The body has a document type declaration"}
	badCharset      = kind{http.StatusBadRequest, "charset", "The body is not in UTF-8"}
	badForm         = kind{http.StatusBadRequest, "bad-form", "The form is not valid"}
	incompleteBody  = kind{http.StatusBadRequest, "incomplete-body", "The body did not arrive whole"}
	wrongCredential = kind{http.StatusUnauthorized, "wrong-credential", "The credential is wrong"}

	noCredential       = kind{http.StatusForbidden, "no-credential", "A credential is needed"}
	notCovered         = kind{http.StatusForbidden, "topic-not-covered", "The credential does not cover the topic"}
	topicNotAllowed    = kind{http.StatusForbidden, "topic-not-allowed", "The topic is not served here"}
	callbackNotAllowed = kind{http.StatusForbidden, "callback-not-allowed", "The callback can't be called"}
	insecureSecret     = kind{http.StatusForbidden, "insecure-secret", "A secret came over plain HTTP"}
	crossSite          = kind{http.StatusForbidden, OutcomeCrossSite, "A web page sent this"}
	topicDenied        = kind{http.StatusForbidden, "topic-denied", "The topic does not name this hub"}
	contentMismatch    = kind{http.StatusForbidden, "content-mismatch", "The topic does not serve what was posted"}

	badQuery      = kind{http.StatusBadRequest, "bad-query", "The question is not valid"}
	unknownTopic  = kind{http.StatusNotFound, "unknown-topic", "The hub has nothing of this topic"}
	noChanges     = kind{http.StatusNotFound, "no-changes", "The topic carries no changes"}
	historyOff    = kind{http.StatusNotFound, "history-off", "This hub does not serve what it keeps"}
	notAcceptable = kind{http.StatusNotAcceptable, "not-acceptable", "There is no such form of the answer"}
	notYet        = kind{http.StatusConflict, "not-yet", "The topic has not come that far"}
	trimmed       = kind{http.StatusGone, "trimmed", "The hub no longer has it"}
	tooManyReads  = kind{http.StatusTooManyRequests, "too-many-reads", "Too much is being read"}

	notFound         = kind{http.StatusNotFound, "not-found", "There is nothing here"}
	methodNotAllowed = kind{http.StatusMethodNotAllowed, "method-not-allowed", "The method is not offered"}
	slowBody         = kind{http.StatusRequestTimeout, "slow-body", "The body came too slowly"}

	gap      = kind{http.StatusConflict, "gap", "The notification leaves a gap"}
	overlap  = kind{http.StatusConflict, "overlap", "The notification overlaps an earlier one"}
	conflict = kind{http.StatusConflict, "conflict", "The interval was published with other content"}

	tooLarge             = kind{http.StatusRequestEntityTooLarge, "too-large", "The body is too large"}
	tooManyEntries       = kind{http.StatusRequestEntityTooLarge, "too-many-entries", "The notification has too many entries"}
	unsupportedMediaType = kind{http.StatusUnsupportedMediaType, "media-type", "The media type is not accepted"}
	badDocument          = kind{http.StatusUnprocessableEntity, "invalid-notification", "The body is not a valid notification"}
	emptyContent         = kind{http.StatusUnprocessableEntity, "empty-content", "The topic serves nothing"}
	otherKind            = kind{http.StatusUnprocessableEntity, "other-kind", "The topic carries another kind of notification"}
	rateLimited          = kind{http.StatusTooManyRequests, "rate-limited", "There were too many requests"}
	tooManySubscriptions = kind{http.StatusTooManyRequests, "too-many-subscriptions", "There are too many subscriptions"}
	tooManyPings         = kind{http.StatusTooManyRequests, "too-many-pings", "Too many topics wait to be fetched"}

	internalError    = kind{http.StatusInternalServerError, "internal-error", "The hub made a mistake"}
	storeDown        = kind{http.StatusServiceUnavailable, "store-unavailable", "The store can't be reached"}
	storeFull        = kind{http.StatusServiceUnavailable, "store-full", "The store is full"}
	drainingHub      = kind{http.StatusServiceUnavailable, "draining", "The hub is shutting down"}
	busy             = kind{http.StatusServiceUnavailable, "busy", "The hub is busy"}
	topicUnreachable = kind{http.StatusServiceUnavailable, "topic-unreachable", "The topic can't be checked"}
)

// ours reports whether this hub is at fault, and not the client or the topic.
func (k kind) ours() bool { return k == storeDown || k == storeFull || k == busy }

const (
	// retryDefault is the Retry-After of a 503 or 429 without a time of its own.
	retryDefault = 10 * time.Second
	// lingering is how long the server reads the rest of a refused body.
	lingering = time.Second
)

// refusal is an error with everything that its answer says.
type refusal struct {
	kind         kind
	detail       string // one or more sentences for the person at the other end
	rule         string
	line, column int
	expectedFrom time.Time
	gap          *journal.Gap
	earliest     time.Time // from where on the hub has what was asked for
	until        time.Time // how far the topic has come
	wait         time.Duration
	cause        error // for the log alone
}

func (e *refusal) Error() string {
	if e.cause != nil {
		return e.detail + " (" + e.cause.Error() + ")"
	}
	return e.detail
}

func (e *refusal) Unwrap() error { return e.cause }

func (e *refusal) retryAfter(d time.Duration) *refusal {
	e.wait = d
	return e
}

func refuse(k kind, format string, args ...any) *refusal {
	return &refusal{kind: k, detail: fmt.Sprintf(format, args...)}
}

// refusals are the errors that mean the same refusal whenever they come.
var refusals = []struct {
	err    error
	answer refusal
}{
	{validate.ErrUnknownCredential, refusal{kind: wrongCredential, detail: "The bearer token or X-Hub-Signature is not that of a publisher here. Check it, or leave it out if the topic's content is to speak for itself."}},
	{validate.ErrNotCovered, refusal{kind: notCovered, detail: "The credential is valid and does not cover this topic; the hub's operator says which topics it covers."}},
	{browser.ErrCrossSite, refusal{kind: crossSite, detail: "A web page of another origin had a browser send this. This hub carries out nothing for such pages, since the people who visit them do not know of it. Send the request from a program, without the headers Origin and Sec-Fetch-Site."}},
	{browser.ErrHost, refusal{kind: crossSite, detail: "A browser sent this to a host name that is not one of this hub's. Use the host name of its URL; or have its operator allow this one with --allow-host."}},
	{journal.ErrTooManyPings, refusal{kind: tooManyPings, detail: "Too many topics that this hub knows nothing of wait to be fetched; no part of this ping was accepted. Try again later.", wait: time.Minute}},
}

// classify returns the refusal for any error. An error that it does not know is the
// store's: every other part has error types of its own.
func classify(err error) *refusal {
	var (
		r          *refusal
		form       *websub.FormError
		document   *validate.DocumentError
		denied     *validate.DeniedError
		mismatch   *validate.MismatchError
		unsure     *validate.UnsureError
		wait       *validate.WaitError
		refused    *egress.RefusedError
		overbooked *subscriptions.LimitError
	)
	if asked := classifyRead(err); asked != nil {
		return asked
	}
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &form) && form.Param != "":
		return refuse(badForm, "%s.", form.Error()) // begins with the parameter's name, as it is
	case errors.As(err, &form):
		return refuse(badForm, "%s", sentence(form.Error()))
	case errors.As(err, &document):
		return classifyDocument(document)
	case errors.As(err, &mismatch):
		return refuse(contentMismatch, "What was posted has to be what the topic URI serves, or a copy below it that Content-Location names: %s Try again once it is.", sentence(mismatch.Reason))
	case errors.As(err, &denied):
		return refuse(topicDenied, `%s A topic's URL has to answer itself, and to name itself as rel="self" and this hub as rel="hub" in Link headers, or in the page or feed that it serves.`, sentence(denied.Reason))
	case errors.As(err, &wait):
		return refuse(topicUnreachable, "The topic could not be asked: %s", sentence(wait.Error())).retryAfter(wait.After)
	case errors.As(err, &unsure):
		return refuse(topicUnreachable, "The topic could not be asked: %s Try again later.", sentence(unsure.Reason)).retryAfter(unsure.After)
	case errors.As(err, &refused):
		return refuse(callbackNotAllowed, "The callback's address %s", sentence(refused.Error()))
	case errors.As(err, &overbooked):
		return refuse(tooManySubscriptions, "%s", sentence(overbooked.Reason)).retryAfter(overbooked.RetryAfter)
	}
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			return &known.answer
		}
	}
	r = &refusal{kind: storeDown, detail: "This hub's store can't be reached; the request was not acknowledged. Send it again later, as it is.", cause: err}
	if errors.Is(err, journal.ErrFull) {
		r.kind, r.detail = storeFull, "This hub's store is full, and nothing was accepted. Try again later."
	}
	return r
}

// classifyRead returns the refusal of a question about the history of a topic; nil: it is none.
func classifyRead(err error) *refusal {
	var (
		query   *history.QueryError
		gone    *history.TrimmedError
		future  *history.FutureError
		full    *history.BusyError
		unknown *history.UnknownError
		r       *refusal
	)
	switch {
	case errors.As(err, &query):
		return refuse(badQuery, "%s.", query.Error())
	case errors.As(err, &gone):
		r = refuse(trimmed, "This hub has the changes of this topic from %s on, no earlier ones. Ask for those, and get the rest from the lists of the Source.", instant(gone.Earliest))
		r.earliest = gone.Earliest
	case errors.As(err, &future):
		r = refuse(notYet, "The newest notification of this topic ends at %s, which is earlier. Ask for what comes after that.", instant(future.Until))
		r.until = future.Until
	case errors.As(err, &full) && full.Stream && full.Yours:
		return refuse(tooManyReads, "Your address has as many streams as this hub lets one have. End one, or name several topics in one stream.")
	case errors.As(err, &full) && full.Stream:
		return refuse(tooManyReads, "This hub has as many streams as it can have. Try again later, or ask for the changes with since=.")
	case errors.As(err, &full) && full.Yours:
		return refuse(tooManyReads, "This hub is writing as many answers to your address as it does at a time. Wait for one to end.")
	case errors.As(err, &full):
		return refuse(tooManyReads, "This hub is writing as many answers as it does at a time. Wait and try again.")
	case errors.Is(err, history.ErrGone):
		return refuse(trimmed, "This hub no longer has it: it was deleted after the time for which the hub keeps notifications.")
	case errors.Is(err, history.ErrNoChanges):
		return refuse(noChanges, "This topic carries no change notifications, so there is no Change List of it. Ask with latest for the last document that was published.")
	case errors.As(err, &unknown):
		return refuse(unknownTopic, "%s", whatIsUnknown(unknown))
	}
	return r
}

// whatIsUnknown says what the hub does not have. It repeats a topic only if that can be one, since it goes into the log.
func whatIsUnknown(e *history.UnknownError) string {
	if wrong := websub.CheckURL("hub.topic", e.Topic); wrong != nil {
		return fmt.Sprintf("This hub has nothing of this topic: %s.", wrong)
	}
	if e.ID != uuid.Nil {
		return fmt.Sprintf("This hub has no notification %s of the topic %q. Check the id and the URL of the topic.", e.ID, e.Topic)
	}
	return fmt.Sprintf("This hub has nothing of the topic %q. Check its URL, byte by byte.", e.Topic)
}

func classifyDocument(d *validate.DocumentError) *refusal {
	k := badDocument
	switch {
	case d.Kind == validate.NotWellFormed:
		k = notWellFormed
	case d.Kind == validate.HasDTD:
		k = documentType
	case d.Kind == validate.BadEncoding:
		k = badCharset
	case d.Kind == validate.OverLimit && d.Rule == validate.RuleEntries:
		k = tooManyEntries
	}
	r := refuse(k, "%s", sentence(d.Msg))
	r.rule, r.line, r.column = d.Rule, d.Line, d.Column
	if d.Line > 0 { // the message may begin with a name of the document, which stays as it is
		r.detail = fmt.Sprintf("Line %d, column %d: %s", d.Line, d.Column, strings.TrimSuffix(d.Msg, ".")+".")
	}
	if d.Rule != "" {
		r.detail = strings.TrimSuffix(r.detail, ".") + " (" + d.Rule + ")."
	}
	return r
}

// problem is the body of a refusal as problem+json (RFC 9457).
type problem struct {
	Type         string       `json:"type"`
	Title        string       `json:"title"`
	Status       int          `json:"status"`
	Detail       string       `json:"detail"`
	Rule         string       `json:"rule,omitempty"`
	Line         int          `json:"line,omitempty"`
	Column       int          `json:"column,omitempty"`
	ExpectedFrom string       `json:"expected_from,omitempty"`
	Gap          *intervalDoc `json:"gap,omitempty"`
	Earliest     string       `json:"earliest,omitempty"`
	Until        string       `json:"until,omitempty"`
}

type intervalDoc struct {
	From  string `json:"from"`
	Until string `json:"until"`
}

func (e *refusal) problem() problem {
	p := problem{
		Type: typeBase + e.kind.slug, Title: e.kind.title, Status: e.kind.status, Detail: e.detail,
		Rule: e.rule, Line: e.line, Column: e.column, ExpectedFrom: instant(e.expectedFrom),
		Earliest: instant(e.earliest), Until: instant(e.until),
	}
	if e.gap != nil {
		p.Gap = &intervalDoc{From: instant(e.gap.From), Until: instant(e.gap.Until)}
	}
	return p
}

// refuse answers a request with the refusal for err: one or two plain sentences (HUB-14), or
// problem+json if Accept prefers that.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) *refusal {
	e := classify(err)
	header := w.Header()
	switch {
	case e.wait > 0:
		header.Set("Retry-After", strconv.Itoa(int((e.wait+time.Second-1)/time.Second)))
	case e.kind.status == http.StatusServiceUnavailable || e.kind.status == http.StatusTooManyRequests:
		header.Set("Retry-After", strconv.Itoa(int(retryDefault/time.Second)))
	case e.kind.status == http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="rshub"`)
	}
	switch e.kind {
	case tooLarge, slowBody, incompleteBody:
		header.Set("Connection", "close") // no more of it is read
	default:
		// Net/http reads some of what is left of the body before it sends the
		// answer, however slowly that comes.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingering)) // where there is a connection
	}
	negotiate.Refuse(w, r, e.kind.status, e.detail, e.problem())
	return e
}

func answerJSON(w http.ResponseWriter, media string, status int, v any) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // strings and numbers always encode
	answer(w, media, status, b.String())
}

func answer(w http.ResponseWriter, media string, status int, body string) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may have disconnected
}

// instant formats a time as a W3C datetime in UTC, with Z. The zero time is empty.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// sentence makes a sentence of an error's text. It begins with a capital, unless the first
// word is a name, and ends with a full stop.
func sentence(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if first != "" && strings.IndexFunc(first, func(r rune) bool { return !unicode.IsLower(r) }) < 0 {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
