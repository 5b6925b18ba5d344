package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// delivery is one POST that a callback got.
type delivery struct {
	callback  string // the request URI
	id        string // Webhook-Id
	attempt   string // RSHub-Attempt
	header    http.Header
	body      []byte
	signature string
}

// verification is one GET that a callback got.
type verification struct {
	callback string
	query    map[string][]string
	raw      string
}

// receiver is a subscriber's HTTP server, on several addresses so that the
// per-host limit does not rule. It says yes to every verification and 200 to
// every delivery unless told otherwise.
type receiver struct {
	servers []*httptest.Server

	mu            sync.Mutex
	deliveries    []delivery
	verifications []verification
	// answerGet and answerPost, where set, answer instead.
	answerGet, answerPost http.HandlerFunc
	keepBodies            bool
}

func newReceiver(t *testing.T, hosts int) *receiver {
	t.Helper()
	r := &receiver{keepBodies: true}
	for range hosts {
		s := httptest.NewServer(r)
		t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
		r.servers = append(r.servers, s)
	}
	return r
}

// url is the URL of a path on the n-th address.
func (r *receiver) url(n int, path string) string { return r.servers[n%len(r.servers)].URL + path }

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch req.Method {
	case http.MethodGet:
		r.mu.Lock()
		r.verifications = append(r.verifications, verification{req.URL.Path, req.URL.Query(), req.URL.RawQuery})
		answer := r.answerGet
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
			return
		}
		_, _ = io.WriteString(w, req.URL.Query().Get("hub.challenge"))
	case http.MethodPost:
		r.mu.Lock()
		answer, keep := r.answerPost, r.keepBodies
		r.mu.Unlock()
		var body []byte
		if keep {
			var err error
			if body, err = io.ReadAll(req.Body); err != nil {
				return // the hub was cut off in the middle of it
			}
		}
		d := delivery{
			callback: req.URL.RequestURI(), id: req.Header.Get("Webhook-Id"), attempt: req.Header.Get("RSHub-Attempt"),
			header: req.Header.Clone(), body: body, signature: req.Header.Get("X-Hub-Signature"),
		}
		r.mu.Lock()
		r.deliveries = append(r.deliveries, d)
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	}
}

func (r *receiver) onGet(f http.HandlerFunc)  { r.mu.Lock(); r.answerGet = f; r.mu.Unlock() }
func (r *receiver) onPost(f http.HandlerFunc) { r.mu.Lock(); r.answerPost = f; r.mu.Unlock() }

// got returns the deliveries so far.
func (r *receiver) got() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivery(nil), r.deliveries...)
}

// asked returns the verifications so far.
func (r *receiver) asked() []verification {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]verification(nil), r.verifications...)
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
