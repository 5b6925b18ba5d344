package cli

import (
	"fmt"
	"testing"
)

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

// Ranges that may be called are written as those of rshub are.
func TestRanges(t *testing.T) {
	f := CallFlags{allow: []string{"10.0.0.7", "::ffff:192.168.0.0/112", "fd00::/8"}}
	got, err := f.Ranges()
	if err != nil || fmt.Sprint(got) != "[10.0.0.7/32 192.168.0.0/16 fd00::/8]" {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "x", "10.0.0.0/33", "169.254.0.0/16"} {
		if got, err := (&CallFlags{allow: []string{text}}).Ranges(); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
