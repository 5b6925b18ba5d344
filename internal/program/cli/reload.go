package cli

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
)

// Reload is `rshub reload`.
func Reload(env Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "reload", Short: "Have a hub read its publishers, token and certificate again", Args: cobra.NoArgs,
		Long: `Has a running hub read again, at once: the publishers file with the secrets that it
names, the operator's token, and the certificate. The hub also looks at these files
by itself every few seconds. All other settings take a restart.

A file that is no good changes nothing: what was in force before stays, the command
says why, and exits with 4.`,
		Example: `  rshub token revoke library && rshub reload`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.client(env)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.call(cmd.Context(), http.MethodPost, "/api/v1/reload", nil, nil, &raw); err != nil {
				return err
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			done, err := decode[admin.ReloadAnswer](c, raw)
			if err != nil {
				return err
			}
			for _, item := range done.Items {
				say(cmd.OutOrStdout(), "Read again: %s, %s (%s)\n", Line(item.What), Line(item.Detail), Line(item.File))
			}
			return nil
		},
	}
	f.add(cmd, "print the JSON that the API gives")
	return cmd
}
