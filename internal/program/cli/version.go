package cli

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// commit is set by the linker where the Go tool sees no repository, as in the build of an image.
var commit string

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

// origin is what a program was built from: the commit and whether files differed from it, as far
// as the Go tool or the linker recorded them. `go install MODULE@VERSION` records the checksum
// of the module instead, or, of a version that is no tag, the beginning of the commit.
type origin struct {
	commit, sum string
	modified    bool
}

// pseudo is the end of a version that is no tag.
var pseudo = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+|$)`)

func originOf(info *debug.BuildInfo, linked string) origin {
	o := origin{commit: linked}
	if info == nil {
		return o
	}
	o.sum = info.Main.Sum
	if m := pseudo.FindStringSubmatch(info.Main.Version); m != nil && linked == "" {
		o.commit = m[1]
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			o.commit = s.Value
		case "vcs.modified":
			o.modified = s.Value == "true"
		}
	}
	return o
}

// String is for one line; empty: nothing is known.
func (o origin) String() string {
	switch {
	case o.commit != "" && o.modified:
		return "commit " + o.commit + " with changes"
	case o.commit != "":
		return "commit " + o.commit
	case o.sum != "":
		return "module " + o.sum
	}
	return ""
}

// Root returns the root command of a program, with the commands `version` and `man`, and the
// flag --version.
func Root(name, short, version string, children ...*cobra.Command) *cobra.Command {
	info, _ := debug.ReadBuildInfo()
	from := originOf(info, commit)
	platform := runtime.GOOS + "/" + runtime.GOARCH
	facts := []string{from.String(), runtime.Version(), platform}
	if facts[0] == "" {
		facts = facts[1:]
	}
	line := fmt.Sprintf("%s %s (%s)", name, version, strings.Join(facts, ", "))
	var asJSON bool
	show := &cobra.Command{
		Use: "version", Short: "Print the version", Args: NoArguments,
		Long: `Prints the version, the commit that it was built from, the version of Go and the
platform. What ` + "`go install`" + ` built from a tag has the checksum of the module instead
of the commit: that of the checksum database for this version.`,
		Example: "  " + name + " version\n  " + name + " version --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				out := map[string]string{"version": version, "go": runtime.Version(), "platform": platform}
				if from.commit != "" {
					out["commit"] = from.commit
				}
				if from.modified {
					out["modified"] = "true"
				}
				if from.sum != "" {
					out["sum"] = from.sum
				}
				return WriteJSON(cmd.OutOrStdout(), out)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
	show.Flags().BoolVar(&asJSON, "json", false, "print it as a JSON object")
	root := Group(name, short, append(children, show, manCommand(version))...)
	root.Version = line
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}
