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

// optionFlags are the flags for options that errors of the packages name.
var optionFlags = map[string]string{
	"Options.MaxFile": "--max-file", "Options.MaxEntries": "--max-entries", "Options.MaxTotal": "--max-total", "Options.MinFree": "--min-free-disk", "Options.MaxDelete": "--max-delete",
	"Options.Roots": "--map", "Options.HiddenAllow": "--hidden-allow", "Options.Hosts": "--allow-host", "Options.Tokens": "--token-file", "Options.MinSignature": "--min-signature",
	"Options.AsOf": "--as-of", "Options.Dir": "--dir", "Options.Reselect": "--reselect", "Options.Select.Include": "--include", "Options.Select.Exclude": "--exclude", "Options.Select.Types": "--type", "Options.Select.Collections": "--collection",
	"Options.InsecureStream": "--insecure-stream", "Options.Callback": "--callback-url", "Options.Via": "--via", "Options.Allow": "--allow-cidr", "FleetOptions.Allow": "--allow-cidr",
}

// run is the whole command; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	follow, check := followCommand() //nolint:contextcheck // cobra gives it ctx
	listen := listenCommand()        //nolint:contextcheck // the same
	root := cli.Root("rssub", "A ResourceSync Destination: copies that can prove they are in sync", cli.BuildVersion(version),
		syncCommand(), follow, auditCommand(), listen, statusCommand(), //nolint:contextcheck // cobra gives them ctx
	)
	root.Long = `rssub copies a ResourceSync Source once (sync), or keeps a copy in sync all the time
with the help of the Source's hub (follow). It can prove that the copy is in sync
(audit), and print the notifications of any WebSub topic without missing one (listen).

Flags can also be set in the environment and in a file: rssub config show --help.

Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 not found, 4 refused,
5 the Source can't be reached, 6 partial or not in sync.`
	root.Example = "  rssub follow http://localhost:8090/ --dir ./copy --dev    a copy of a Source"
	root.Annotations = optionFlags
	cli.Configure(root, os.Environ(), []string{"unsubscribe"}, check, follow, listen) //nolint:contextcheck // the same
	root.SetContext(ctx)
	cli.WrapHelp(root, cli.Env{Getenv: os.Getenv})
	return cli.Execute(root, args, stdin, stdout, stderr)
}
