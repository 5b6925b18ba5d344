package destination

import (
	"testing"

	"github.com/rshub/rshub/internal/base/egress"
)

// A set is gone if this Source led to it and has been read since without it.
func TestSetIsGone(t *testing.T) {
	const address = "http://127.0.0.1:1/"
	c, err := Open(Options{Source: address, Dir: t.TempDir(), Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for name, via := range map[string]string{"had": address, "other": "http://127.0.0.1:2/"} {
		if err := c.syncer.state.putSet(name, setState{Via: via}); err != nil {
			t.Fatal(err)
		}
	}
	s := c.syncer.source
	check := func(want bool) {
		t.Helper()
		if s.isGone("had") != want || s.isGone("other") || s.isGone("unknown") {
			t.Errorf("gone: %v, %v, %v", s.isGone("had"), s.isGone("other"), s.isGone("unknown"))
		}
	}
	check(false) // it was not read yet
	s.keep("had", "more")
	check(false)
	s.keep("more")
	check(true)
}
