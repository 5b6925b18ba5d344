package browser

import (
	"net/http"
	"testing"
)

// An answer has each header once, whatever was set before.
func TestProtect(t *testing.T) {
	h := http.Header{"X-Frame-Options": {"ALLOWALL"}}
	Protect(h)
	for name, want := range map[string]string{
		"Content-Security-Policy": PolicyNothing, "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
