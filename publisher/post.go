package publisher

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

const (
	mediaXML  = "application/xml"
	userAgent = "rshub-publisher (+https://github.com/rshub/rshub)"
	// slowest is the pace at which a hub has to read the body of a POST, in bytes a
	// second, beside the time limit.
	slowest = 128 << 10
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 64 << 10
	// expectOver is the size, in bytes, above which a hub may refuse a POST before its
	// body is sent.
	expectOver = 1 << 20
)

// Notification is a notification to post to a hub: its bytes and headers.
type Notification struct {
	Topic string
	Body  []byte
	// Location is the URL of an immutable copy below the topic, sent as
	// Content-Location; empty: there is none.
	Location string
	// CapabilityList is sent as Link rel="resourcesync"; empty: not.
	CapabilityList string
}

// Receipt is a hub's answer to a notification that it accepted.
type Receipt struct {
	Status int    // 200, or another 2xx from a hub that does not follow N 4.1
	ID     string // empty if the hub does not say
	// Duplicate says that the hub has received these bytes before.
	Duplicate bool
}

// RefusedError is an answer that is not 2xx.
type RefusedError struct {
	Hub    string
	Status int
	// Type is the last part of the problem's type, such as "gap"; empty if the
	// hub does not say.
	Type string
	// Detail is what the hub says.
	Detail string
	// ExpectedFrom is where the hub expects the next interval to begin; zero if it does
	// not say.
	ExpectedFrom time.Time
	// RetryAfter is how long the hub asks to wait; zero if it does not say.
	RetryAfter time.Duration
}

// Error says which hub refused it and why.
func (e *RefusedError) Error() string {
	what := fmt.Sprintf("%s answered %d", e.Hub, e.Status)
	if e.Detail == "" {
		return what + " " + http.StatusText(e.Status)
	}
	return what + ": " + e.Detail
}

// Post posts a notification once (SRC-07), without any outbox. The error is a *RefusedError,
// an error of the network, or says what is wrong with h or n. A nil client is that of
// Options.Client. It does not follow redirects, not even with an *http.Client. Ctx bounds
// the exchange.
func Post(ctx context.Context, client Doer, h Hub, n Notification) (Receipt, error) {
	if err := checkHub(h); err != nil {
		return Receipt{}, err
	}
	if err := websub.CheckURL("the topic", n.Topic); err != nil {
		return Receipt{}, err
	}
	if n.Location != "" {
		if err := websub.CheckURL("the location", n.Location); err != nil {
			return Receipt{}, err
		}
	}
	client, release, err := withoutRedirects(client)
	if err != nil {
		return Receipt{}, err
	}
	defer release()
	return post(ctx, client, h, n)
}

// checkHub refuses a hub that nothing can be posted to.
func checkHub(h Hub) error {
	if err := websub.CheckURL("the hub", h.URL); err != nil {
		return err
	}
	if h.Token != "" && h.Secret != "" {
		return fmt.Errorf("the hub %s has a token and a secret: give one of them", h.URL)
	}
	return h.checkToken()
}

// errToken says that a token cannot be in a header.
var errToken = errors.New("has a control character, such as the end of a line, and cannot be sent")

func (h Hub) checkToken() error {
	if !httpguts.ValidHeaderFieldValue(h.Token) {
		return fmt.Errorf("the token for the hub %s %w (Hub.Token)", h.URL, errToken)
	}
	return nil
}

func post(ctx context.Context, client Doer, h Hub, n Notification) (Receipt, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(n.Body))
	if err != nil {
		return Receipt{}, err
	}
	req.Header.Set("Content-Type", mediaXML)
	req.Header.Set("Accept", "application/problem+json, application/json;q=0.9, text/plain;q=0.1")
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Link", linkHeader(n.Topic, []string{h.URL}, n.CapabilityList))
	if n.Location != "" {
		req.Header.Set("Content-Location", n.Location)
	}
	if len(n.Body) > expectOver {
		req.Header.Set("Expect", "100-continue")
	}
	if h.Credential != nil {
		h.Token, h.Secret = h.Credential()
		if err := h.checkToken(); err != nil {
			return Receipt{}, err
		}
	}
	switch {
	case h.Token != "":
		req.Header.Set("Authorization", "Bearer "+h.Token)
	case h.Secret != "":
		req.Header.Set(websub.HeaderSignature, websub.SHA256.Sign(h.Secret, n.Body))
	}
	resp, err := client.Do(req)
	if err != nil {
		return Receipt{}, fmt.Errorf("%s could not be reached: %w", h.URL, egress.Unanswered(err))
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 == 2 { // even if the rest of the answer is missing
		return readReceipt(resp.StatusCode, answer), nil
	}
	refused := readRefusal(resp, answer, time.Now())
	refused.Hub = h.URL
	if err != nil && refused.Detail == "" {
		refused.Detail = "the answer broke off"
	}
	return Receipt{}, refused
}

// linkHeader is the Link header of POSTs and answers (SRC-02, SRC-07).
func linkHeader(topic string, hubs []string, capabilityList string) string {
	links := []websub.Link{{Target: topic, Rels: []string{websub.RelSelf}}}
	for _, hub := range hubs {
		links = append(links, websub.Link{Target: hub, Rels: []string{websub.RelHub}})
	}
	if capabilityList != "" {
		links = append(links, websub.Link{Target: capabilityList, Rels: []string{websub.RelResourceSync}})
	}
	return websub.FormatLinks(links...)
}

func readReceipt(status int, answer []byte) Receipt {
	var said struct {
		ID        string `json:"id"`
		Duplicate bool   `json:"duplicate"`
	}
	_ = json.Unmarshal(answer, &said) // some hubs answer only with the status
	return Receipt{Status: status, ID: said.ID, Duplicate: said.Duplicate}
}

// readRefusal reads an answer that is not 2xx: problem+json, or a sentence.
func readRefusal(resp *http.Response, answer []byte, now time.Time) *RefusedError {
	e := &RefusedError{Status: resp.StatusCode, RetryAfter: web.RetryAfter(resp.Header, now, maxRetryAfter)}
	var said struct {
		Type         string `json:"type"`
		Detail       string `json:"detail"`
		ExpectedFrom string `json:"expected_from"`
	}
	_ = json.Unmarshal(answer, &said) // other servers say it in other ways
	e.Type = said.Type[strings.LastIndexAny(said.Type, "#/")+1:]
	e.Detail = excerpt.Of([]byte(cmp.Or(said.Detail, string(answer))), maxDetail)
	if at, err := resourcesync.ParseDatetime(said.ExpectedFrom); err == nil {
		e.ExpectedFrom = at
	}
	return e
}

// maxDetail is how much of a hub's words is stored, in characters.
const maxDetail = 500

// maxRetryAfter is the longest wait that a hub can ask for. Changes wait meanwhile, and a
// hub that is back sooner has to get them.
const maxRetryAfter = time.Hour

// byAnother is what calls an address that the client of this package does not call.
func byAnother(netip.Prefix) string { return "another client is given" }

// withoutRedirects returns a client that follows no redirects: WebSub calls a 3xx a failure
// (SRC-08), and a credential is for one hub. A nil client becomes the guarded one of package
// egress, which also calls hubs on this machine and in private networks, since the operator
// of the Source names the hubs. Release closes the connections of a client made here.
func withoutRedirects(d Doer) (client Doer, release func(), err error) {
	if d == nil {
		own, err := egress.New(egress.Options{Allow: egress.DevAllow(), Unless: byAnother, UserAgent: userAgent})
		return own, own.CloseIdleConnections, err
	}
	return web.WithoutRedirects(d), func() {}, nil
}
