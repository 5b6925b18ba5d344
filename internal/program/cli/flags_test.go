package cli

import "testing"

// Spans are written as people write them.
func TestSpan(t *testing.T) {
	for text, want := range map[string]string{"90s": "1m30s", "30d": "30d", "72h": "3d", "off": "off", "10m": "10m", "2h": "2h", "0s": "0s", "25h": "25h"} {
		var s Span
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("%s is written %s: %v", text, s.String(), err)
		}
	}
	for _, text := range []string{"", "d", "1", "-1d", "1.5d", "99999999d"} {
		if err := new(Span).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
