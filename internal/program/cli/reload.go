package cli

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
)

// Reload is `rshub reload`.
func Reload(env Env) *cobra.Command {
	return new(clientFlags).onHub(env, jsonWhole, &cobra.Command{
		Use: "reload", Short: "Make a hub read its publishers, token and certificate again", Args: NoArguments,
		Long: `Makes a running hub read these again at once: the publishers file with the secrets that
it names, the operator's token, and the certificate. The hub also checks these files by
itself every few seconds. All other settings need a restart.

A file with a mistake changes nothing: the hub continues with what it read before. The
command then says why and exits with 4.`,
		Example: `  rshub token revoke library && rshub reload`,
	}, func(r *run, _ []string) error {
		return report(r, http.MethodPost, "/api/v1/reload", nil, func(done admin.ReloadAnswer) error {
			for _, item := range done.Items {
				say(r.cmd.OutOrStdout(), "Read again: %s, %s (%s)\n", Line(item.What), Line(item.Detail), Line(item.File))
			}
			return nil
		})
	})
}
