package subscriber

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/web"
)

// StatusError.RetryAfter is a day at most, in either form of the header.
func TestRetryAfterIsBounded(t *testing.T) {
	for header, want := range map[string]time.Duration{"120": 2 * time.Minute, "999999": 24 * time.Hour, "Fri, 31 Dec 9999 23:59:59 GMT": 24 * time.Hour, "soon": 0} {
		client := web.DoerFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {header}}, Body: io.NopCloser(strings.NewReader("no"))}, nil
		})
		_, err := Discover(t.Context(), client, "http://topic.example/")
		var status *StatusError
		if !errors.As(err, &status) || status.RetryAfter != want || status.Text != "no" {
			t.Errorf("%s: %+v", header, err)
		}
	}
}
