package main

import (
	"io"
	"log"
	"os"
	"strings"

	"github.com/rshub/rshub/internal/program/cli"
)

// version is set by the linker in a release.
var version string

func main() {
	log.SetOutput(cli.Screen(os.Stderr)) // net/http reports unusual answers there
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command; it returns the exit code.
func run(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env, version := cli.Env{Getenv: getenv(environ)}, cli.BuildVersion(version)
	root := cli.Root("rshub", "A WebSub hub for ResourceSync change notifications", version,
		serveCommand(environ, version),
		cli.Info(env), cli.Top(env), cli.Events(env), cli.Refusals(env), cli.Streams(env), cli.Topic(env, tailCommand()), cli.Subscription(env), cli.Notification(env), cli.Reload(env),
		demoCommand(version), healthCommand(environ),
		cli.Backup(env), restoreCommand(environ), exportCommand(environ, version), importCommand(environ), checkCommand(environ), cli.Upgrade(env),
		cli.Validate(), cli.Callback(), cli.Try(env), tokenCommand(environ), kubeSecretCommand(getenv(environ)),
		cli.Group("config", "Show, check and write the settings of a hub", configShowCommand(environ), configCheckCommand(environ), configInitCommand()),
	)
	root.Long = `rshub is a WebSub hub for ResourceSync change notifications.

Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 not found, 4 refused,
5 no hub answers, 6 partial or not in sync.`
	root.Example = "  rshub serve --dev        a hub for this machine on http://localhost:8080/"

	cli.WrapHelp(root, env)
	return cli.Execute(root, args, stdin, stdout, stderr)
}

func getenv(environ []string) func(string) string {
	return func(name string) string {
		for _, kv := range environ {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		return ""
	}
}
