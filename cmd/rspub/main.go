package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/cli"
)

// version is set by the linker in a release.
var version string

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := cli.Group("rspub", "A ResourceSync Source from a folder",
		serveCommand(), publishCommand(), buildCommand(), checkCommand(), versionCommand(), //nolint:contextcheck // what opens a state asks nobody
	)
	root.Long = `rspub publishes a folder with ResourceSync: others can copy it, and keep the copy
in step, by themselves or told by a hub.

Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 not found, 4 refused,
5 hub or Source can't be reached, 6 some hubs have it and some don't.`
	root.Example = "  rspub serve --dir ./books --dev      a Source for this machine on http://localhost:8090/"
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetContext(ctx)
	return cli.Execute(root, args, stderr)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine names the version of a release, else what the Go tool knows of the
// build, else "dev".
func versionLine() string {
	v := version
	if v == "" {
		v = "dev"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
	}
	return fmt.Sprintf("rspub %s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
