package browser

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What browsers send in the cases that matter, header by header, and what programs send.
func TestGuard(t *testing.T) {
	g := NewGuard("hub.example.org", "Hub.Internal.", "::1", "[2001:db8::1]", "2001:DB8:0:0::2", "::ffff:192.0.2.1")
	for _, tc := range []struct {
		why, method, host string
		header            map[string]string
		want              error
	}{
		{"a program", "POST", "anything.example", nil, nil},
		{"a program without Host", "POST", "", nil, nil},
		{"a form of another page", "POST", "hub.example.org", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, ErrCrossSite},
		{"the same over http", "POST", "hub.example.org", map[string]string{"Origin": "http://evil.example"}, ErrCrossSite},
		{"a page in a sandbox", "POST", "hub.example.org", map[string]string{"Origin": "null"}, ErrCrossSite},
		{"a page that hides its origin", "POST", "hub.example.org", map[string]string{"Origin": "null", "Sec-Fetch-Site": "cross-site"}, ErrCrossSite},
		{"an empty Origin", "POST", "other.example", map[string]string{"Origin": ""}, ErrHost},
		{"a sister host", "POST", "hub.example.org", map[string]string{"Origin": "https://www.example.org", "Sec-Fetch-Site": "same-site"}, ErrCrossSite},
		{"another port", "POST", "hub.example.org", map[string]string{"Origin": "http://hub.example.org:8000"}, ErrCrossSite},
		{"a page that says it is of the same origin and is not", "POST", "hub.example.org", map[string]string{"Sec-Fetch-Site": "x"}, ErrCrossSite},
		{"its own page", "POST", "hub.example.org", map[string]string{"Origin": "https://hub.example.org", "Sec-Fetch-Site": "same-origin"}, nil},
		{"its own page at a port", "POST", "hub.example.org:8080", map[string]string{"Origin": "http://hub.example.org:8080"}, nil},
		{"its own page behind a proxy with another Host", "POST", "hub.internal", map[string]string{"Origin": "https://hub.example.org", "Sec-Fetch-Site": "same-origin"}, nil},
		{"by hand", "POST", "HUB.example.org.:443", map[string]string{"Sec-Fetch-Site": "none"}, nil},
		{"a name that was pointed here", "POST", "evil.example", map[string]string{"Origin": "http://evil.example"}, ErrHost},
		{"the same with newer browsers", "POST", "evil.example:8080", map[string]string{"Origin": "http://evil.example:8080", "Sec-Fetch-Site": "same-origin"}, ErrHost},
		{"a longer name", "POST", "hub.example.org.evil.example", map[string]string{"Sec-Fetch-Site": "same-origin"}, ErrHost},
		{"an address", "POST", "10.0.0.1:8080", map[string]string{"Origin": "http://10.0.0.1:8080"}, ErrHost},
		{"an address that is listed", "POST", "[::1]:8080", map[string]string{"Origin": "http://[::1]:8080"}, nil},
		{"another one", "POST", "[2001:db8::1]", map[string]string{"Origin": "http://[2001:db8::1]"}, nil},
		{"one that is listed in another spelling", "POST", "[2001:db8::2]:8080", map[string]string{"Origin": "http://[2001:db8::2]:8080"}, nil},
		{"one with IPv4 in it, as browsers write it", "POST", "[::ffff:c000:201]", map[string]string{"Origin": "http://[::ffff:c000:201]"}, nil},
		{"one that is not listed", "POST", "[2001:db8::3]", map[string]string{"Origin": "http://[2001:db8::3]"}, ErrHost},
		{"the IPv4 address itself", "POST", "192.0.2.1", map[string]string{"Origin": "http://192.0.2.1"}, ErrHost},
		{"no Host", "POST", "", map[string]string{"Sec-Fetch-Site": "same-origin"}, ErrHost},
		{"other methods", "DELETE", "hub.example.org", map[string]string{"Origin": "https://evil.example"}, ErrCrossSite},
		{"methods that do not exist", "post", "hub.example.org", map[string]string{"Origin": "https://evil.example"}, ErrCrossSite},
		{"a link on another page", "GET", "evil.example", map[string]string{"Sec-Fetch-Site": "cross-site"}, nil},
		{"a look before a request", "OPTIONS", "hub.example.org", map[string]string{"Origin": "https://evil.example"}, nil},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Method, r.Host = tc.method, tc.host
		for name, value := range tc.header {
			r.Header.Set(name, value)
		}
		if err := g.Check(r); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.why, err, tc.want)
		}
	}
}
