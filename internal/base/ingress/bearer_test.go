package ingress

import "testing"

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer  abc ": "abc", "BEARER a b": "a b", "Bearer": "", "Bearer ": "",
	} {
		if token, ok := Bearer(header); !ok || token != want {
			t.Errorf("%q: %q, %v, want %q", header, token, ok, want)
		}
	}
	for _, header := range []string{"", "Basic abc", "Bearerabc", " Bearer abc"} {
		if token, ok := Bearer(header); ok {
			t.Errorf("%q is taken for the token %q", header, token)
		}
	}
}
