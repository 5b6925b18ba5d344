package docs

import (
	"os"
	"sync"
	"testing"
)

const module = "github.com/rshub/rshub"

var toRoot = sync.OnceValue(func() error { return os.Chdir("../..") })

// atRoot has a test run at the root of the repository. It is not left to TestMain, since
// go test caches results by the files that are opened after that, seen from where
// the last known Chdir led.
func atRoot(t *testing.T) {
	t.Helper()
	if err := toRoot(); err != nil {
		t.Fatal(err)
	}
}
