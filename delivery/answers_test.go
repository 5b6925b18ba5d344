package delivery

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

func says(code int, body string) *http.Response {
	r := status(code)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
	return r
}

// The first bytes of the latest failed answers are kept, those of successes are not.
func TestAnswersOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub, other := b.subscribe(topicA, cb(0)), b.subscribe(topicA, cb(1))
		n := 0
		b.set(cb(0), func(*http.Request, []byte) (*http.Response, error) {
			n++
			return says(500, fmt.Sprintf("no %d ", n)+strings.Repeat("x", 3*AnswerLimit)), nil
		})
		b.set(cb(1), func(*http.Request, []byte) (*http.Response, error) { return says(200, "thank you"), nil })
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Hour)
		got := b.d.Answers(sub.ID)
		if n < 5 || len(got) != answersEach {
			t.Fatalf("%d answers are kept of %d", len(got), n)
		}
		for i, a := range got {
			attempt := n - answersEach + 1 + i
			if !bytes.HasPrefix(a.Body, fmt.Appendf(nil, "no %d ", attempt)) || len(a.Body) != AnswerLimit || int(a.Attempt) != attempt || a.NotificationID != one.ID {
				t.Errorf("%d of notification %v, %d bytes: %.20q", a.Attempt, a.NotificationID, len(a.Body), a.Body)
			}
		}
		if got := b.d.Answers(other.ID); len(got) != 0 {
			t.Errorf("kept of a success: %v", got)
		}
	})
}

// Invariant 12: the answers have a bound in bytes, whatever the callbacks answer; those of
// the subscription that failed the longest ago go first.
func TestAnswersAreBounded(t *testing.T) {
	const most = 100 << 10
	a := newAnswers(most)
	id := func(n int) uuid.UUID { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)) }
	for n := range 10_000 {
		a.add(id(n/2), Answer{Body: bytes.Repeat([]byte("x"), n%AnswerLimit)})
		if a.bytes > most {
			t.Fatalf("%d bytes after %d", a.bytes, n)
		}
	}
	total := 0
	for _, k := range a.of.Keys() {
		total += size(a.list(k))
	}
	if total != a.bytes || total < most/2 {
		t.Errorf("%d bytes are counted, and %d kept", a.bytes, total)
	}
	if len(a.list(id(4999))) != 2 || len(a.list(id(0))) != 0 {
		t.Error("the latest went, or the oldest stayed")
	}
}
