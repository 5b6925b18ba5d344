package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// BuildVersion is the version of a release, else the one that the Go tool recorded, else
// "dev".
func BuildVersion(release string) string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// Root returns the root command of a program, with the command `version` and the flag
// --version.
func Root(name, short, version string, children ...*cobra.Command) *cobra.Command {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	line := fmt.Sprintf("%s %s (%s, %s)", name, version, runtime.Version(), platform)
	var asJSON bool
	show := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: "  " + name + " version\n  " + name + " version --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return WriteJSON(cmd.OutOrStdout(), map[string]string{
					"version": version, "go": runtime.Version(), "platform": platform,
				})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
	show.Flags().BoolVar(&asJSON, "json", false, "print it as a JSON object")
	root := Group(name, short, append(children, show)...)
	root.Version = line
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}
