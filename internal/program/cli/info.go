package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
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
  rshub info --admin-url https://hub.example.org:8081 --admin-token-file token
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
			err = details(cmd.OutOrStdout(), [][2]string{
				{"version", i.Version},
				{"hub", i.HubURL},
				{"listens", i.Addresses.Public},
				{"operator", i.Addresses.Admin},
				{"store", strings.TrimSpace(i.Store.Kind + " " + i.Store.Location)},
				{"store id", i.Store.ID},
				{"node", i.NodeID},
				{"shards", shardsOf(i)},
				{"started", moment(i.StartedAt, time.Now())},
				{"up", span(seconds(i.Uptime))},
			})
			if err != nil || len(i.Nodes) < 2 {
				return err
			}
			return nodes(env, cmd.OutOrStdout(), i.Nodes)
		},
	}
	f.add(cmd, "print the JSON that the API gives")
	return cmd
}

// shardsOf says in how many hands the shards are, and which are in none.
func shardsOf(i admin.Info) string {
	if i.NodesError != "" {
		return "not known: " + i.NodesError
	}
	owned := 0
	for _, n := range i.Nodes {
		owned += n.Shards
	}
	text := fmt.Sprintf("%d, of %d hubs", owned, len(i.Nodes))
	if len(i.Nodes) == 1 {
		text = fmt.Sprintf("%d, all of this hub", owned)
	}
	if i.Unowned != "" {
		text += "; of none: " + i.Unowned
	}
	return text
}

// shownOwns is how much is shown of which shards a hub owns; --json has all.
const shownOwns = 32

// nodes writes the hubs on one store.
func nodes(env Env, out io.Writer, all []admin.Node) error {
	g := grid{out: out, width: env.width(out), columns: []column{
		{"NODE", whole}, {"SHARDS", whole}, {"LISTENS", dropped}, {"OPERATOR", dropped}, {"VERSION", dropped}, {"STARTED", dropped}, {"SEEN", whole}, {"OWNS", dropped},
	}}
	now := time.Now()
	var rows [][]string
	for _, n := range all {
		rows = append(rows, []string{
			n.ID, strconv.Itoa(n.Shards), n.Addresses.Public, n.Addresses.Admin, n.Version, away(n.StartedAt, now), away(n.SeenAt, now), shorten(n.Owns, shownOwns),
		})
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return g.write(rows)
}
