// Package programs builds rshub, rspub and rssub for tests.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds the commands with these names, or all, into a folder that exists. Call it from a
// folder of the module. It compiles as `make build` does, so that what that or another test
// compiled need not be compiled again.
func Build(dir string, names ...string) error {
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Clean(dir) + string(filepath.Separator)}
	if len(names) == 0 {
		names = []string{"..."}
	}
	for _, name := range names {
		args = append(args, "github.com/rshub/rshub/cmd/"+name)
	}
	build := exec.Command("go", args...) //nolint:gosec,noctx // G204: names and a folder from a test, which waits for it
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the commands: %w\n%s", err, out)
	}
	return nil
}
