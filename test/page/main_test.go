package page

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	pictures = flag.String("pictures", "", "keep the pictures of every page in this folder")
	update   = flag.Bool("update", false, "write the pictures of docs/ anew")
)

// built is the folder of the commands under test.
var built string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rshub-page-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		built = dir
		build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", filepath.Join(dir, "rshub"), "./cmd/rshub")
		build.Dir = "../.."
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building rshub: %v\n%s", err, out)
			return 1
		}
		defer closeBrowser()
		return m.Run()
	}())
}
