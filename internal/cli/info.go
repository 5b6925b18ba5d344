package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
)

// Info is `rshub info`.
func Info(env Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "info", Short: "Show what a running hub is and where it listens", Args: cobra.NoArgs,
		Example: `  rshub info
  rshub info --admin-url https://hub.example.org:8081 --admin-token-file admin.token
  rshub info --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.client(env)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.get(cmd.Context(), "/api/v1/info", nil, &raw); err != nil {
				return err
			}
			var i admin.Info
			if err := json.Unmarshal(raw, &i); err != nil {
				return c.stranger(err.Error())
			}
			if i.Version == "" {
				return c.stranger("it does not give a version")
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			return details(cmd.OutOrStdout(), [][2]string{
				{"version", i.Version},
				{"hub", i.HubURL},
				{"listens", i.Addresses.Public},
				{"operator", i.Addresses.Admin},
				{"store", strings.TrimSpace(i.Store.Kind + " " + i.Store.Location)},
				{"store id", i.Store.ID},
				{"node", i.NodeID},
				{"nodes", nodes(i.Nodes)},
				{"started", moment(i.StartedAt, time.Now())},
				{"up", span(seconds(i.Uptime))},
			})
		},
	}
	f.add(cmd, "print the JSON that the API gives")
	return cmd
}

func nodes(all []admin.Node) string {
	var s []string
	for _, n := range all {
		s = append(s, fmt.Sprintf("%s (%d shards)", n.ID, n.Shards))
	}
	return strings.Join(s, ", ")
}
