package cli

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// What a hub, or whoever finds the callback, sends holds nothing that a terminal
// would act on when it is shown, and a delivery can't pass for another.
func FuzzCallback(f *testing.F) {
	f.Add("hub.mode=subscribe&hub.topic=%1b[2J&hub.challenge=x&hub.lease_seconds=%0a", "", "")
	f.Add("hub.mode=denied&hub.reason=%c2%9b%ff%0d", "", "")
	f.Add("", "<a>\r\n\x1b]0;x\x07\xff", "sha256=00")
	f.Add("hub.mode=denied&hub.topic=x%0a12:00:00+delivered:&hub.reason=%e2%80%ae", "", "")
	f.Add("%zz", strings.Repeat("x", maxExcerpt+1), "\x1b")
	f.Fuzz(func(t *testing.T, query, body, signature string) {
		if strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.ContainsAny(signature, "\r\n") {
			return // HTTP has no such request
		}
		call, printed := trial(t, "s3cret", http.StatusNoContent)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			call(method, query, body, "X-Hub-Signature", signature)
			got := printed()
			if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
				t.Errorf("%s printed %q", method, got)
			}
			for i, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
				if i > 0 && !strings.HasPrefix(line, "  ") {
					t.Errorf("%s printed the line %q", method, line)
				}
			}
		}
	})
}
