package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// Version is `rshub version`.
func Version(env Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: "  rshub version\n  rshub version --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{
					"version": env.Version, "go": runtime.Version(), "platform": platform(),
				})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), VersionLine(env))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as a JSON object")
	return cmd
}

// VersionLine is what `rshub version` and `rshub --version` print.
func VersionLine(env Env) string {
	return fmt.Sprintf("rshub %s (%s, %s)", env.Version, runtime.Version(), platform())
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }
