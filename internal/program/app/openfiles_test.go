package app

import (
	"testing"

	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/config"
)

// The limit that docs/operations.md recommends is enough for the defaults. Settings that allow more
// connections need more.
func TestOpenFilesNeeded(t *testing.T) {
	need := func(args ...string) uint64 {
		t.Helper()
		cfg, _, err := config.Load(append([]string{"--data-dir", t.TempDir()}, args...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return openFilesNeeded(&cfg)
	}
	defaults := need()
	if defaults > 20_000 || defaults < ingress.PublicTotal+adminTotal+3*512+10_000 {
		t.Errorf("%d by default", defaults)
	}
	if got := need("--max-inflight=4096"); got != defaults+3*(4096-512) {
		t.Errorf("%d with more deliveries at once", got)
	}
	if got := need("--max-streams=1"); got != defaults-9_999 {
		t.Errorf("%d with one stream", got)
	}
	for url, servers := range map[string]uint64{
		"redis://h:1": 1, "redis+sentinel://a:1,b:1,c:1/m": 3, "redis+cluster://a:1": 3, "rediss+cluster://a:1,b:1,c:1,d:1": 4,
	} {
		if got := need("--redis-url=" + url); got != defaults+servers*connectionsEach {
			t.Errorf("%d with %s", got, url)
		}
	}
}
