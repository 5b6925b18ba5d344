package destination

import "testing"

// A preferred mirror without a path is one host, and no other whose name only begins like it.
func TestPreferredHostIsWhole(t *testing.T) {
	p := newPreference(&Options{PreferMirrors: []string{"https://mirror.example"}})
	for mirrored, want := range map[string]string{
		"https://mirror.example/a":      "https://mirror.example/a",
		"https://mirror.example.evil/a": "",
	} {
		w := desired{url: "https://source.example/a", mirrors: []mirror{{URL: mirrored, Length: -1}}}
		if got := p.apply(w).first; got != want {
			t.Errorf("with a mirror at %s the first address is %q", mirrored, got)
		}
	}
}
