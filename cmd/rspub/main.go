package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/rshub/rshub/internal/program/cli"
)

// version is set by the linker in a release.
var version string

func main() {
	log.SetOutput(cli.Screen(os.Stderr)) // net/http reports unusual answers there
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	serve, check := serveCommand() //nolint:contextcheck // opening a state sends no request
	relay := relayCommand()        //nolint:contextcheck // as above
	root := cli.Root("rspub", "A ResourceSync Source from a folder", cli.BuildVersion(version),
		serve, relay, publishCommand(), buildCommand(), checkCommand(), //nolint:contextcheck // opening a state sends no request
	)
	root.Long = `rspub publishes a folder as a ResourceSync Source. Others can copy it and keep the copy
in sync: they ask for changes, or a hub pushes them.

Flags can also be set in the environment and in a file: rspub config show --help.

Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 not found, 4 refused,
5 hub or Source can't be reached, 6 some hubs have it and some don't.`
	root.Example = "  rspub serve --dir ./books --dev    a Source on http://localhost:8090/"
	root.Annotations = map[string]string{"Hub.Token": "--token-file", "Hub.Secret": "--secret-file", "FolderOptions.NoVia": "--via=false", "FolderOptions.Dir": "--content-root"}
	cli.Configure(root, os.Environ(), []string{"resume", "resume-topic", "resume-from", "accept-deletions"}, check, serve, relay) //nolint:contextcheck // cobra gives the commands ctx
	root.SetContext(ctx)
	cli.WrapHelp(root, cli.Env{Getenv: os.Getenv})
	return cli.Execute(root, args, stdin, stdout, stderr)
}
