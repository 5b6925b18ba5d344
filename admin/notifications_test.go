package admin

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// stuck is an answer whose reader reads nothing until it is released.
type stuck struct {
	*httptest.ResponseRecorder
	began, release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	s.began <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(p)
}

// Readers of large documents cannot use more memory than is set aside for them.
func TestDocumentsInMemoryAreBounded(t *testing.T) {
	m := &memory{entries: map[string][]journal.Entry{}}
	m.addTopic(journal.Head{Topic: theTopic, Last: journal.Anchor{Position: 1, Seq: 1}})
	document := make([]byte, documentsBytes/2)
	e := journal.Entry{Position: 1, Seq: 1, Size: int64(len(document)), SHA256: sha256.Sum256(document), Body: document}
	e.ID, _ = journal.NewID(noon, journal.Partition(journal.TopicID(theTopic)))
	m.entries[theTopic] = []journal.Entry{e}
	m.bodies = map[uuid.UUID][]byte{e.ID: document}
	h := New(Options{Topics: m, Subscriptions: m})
	request := func(method string) *http.Request {
		return httptest.NewRequestWithContext(t.Context(), method, "http://localhost/api/v1/notifications/"+e.ID.String()+"/document", nil)
	}
	slow := &stuck{began: make(chan struct{}), release: make(chan struct{})}
	done := make(chan struct{})
	for range 2 {
		one := &stuck{httptest.NewRecorder(), slow.began, slow.release}
		go func() {
			h.ServeHTTP(one, request(http.MethodGet))
			done <- struct{}{}
		}()
		<-slow.began
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodGet))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || w.Header().Get("Content-Length") != "" {
		t.Errorf("a third reader: %d %v %s", w.Code, w.Header(), w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodHead))
	if w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d with %d bytes", w.Code, w.Body.Len())
	}
	close(slow.release)
	<-done
	<-done
	w = httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodGet))
	if n, _ := io.Copy(io.Discard, w.Body); w.Code != http.StatusOK || n != e.Size {
		t.Errorf("later: %d with %d bytes", w.Code, n)
	}
}
