package docs

import (
	"context"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
)

const module = "github.com/rshub/rshub"

var toRoot = sync.OnceValue(func() error { return os.Chdir("../..") })

// goAsHere is a command of go that compiles as this test was compiled: what it compiles is in the
// cache already.
func goAsHere(ctx context.Context, command string, args ...string) *exec.Cmd {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = slices.Insert(args, 0, "-race")
	}
	return exec.CommandContext(ctx, "go", append([]string{command}, args...)...)
}

// atRoot has a test run at the root of the repository. It is not left to TestMain, since
// go test caches results by the files that are opened after that, seen from where
// the last known Chdir led.
func atRoot(t *testing.T) {
	t.Helper()
	if err := toRoot(); err != nil {
		t.Fatal(err)
	}
}
