package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
)

// Info is `rshub info`.
func Info(env Env) *cobra.Command {
	return new(clientFlags).onHub(env, jsonWhole, &cobra.Command{
		Use: "info", Short: "Show what a running hub is and where it listens", Args: NoArguments,
		Example: `  rshub info
  rshub info --admin-url https://hub.example.org:8081 --admin-token-file token
  rshub info --json`,
	}, func(r *run, _ []string) error {
		out := r.cmd.OutOrStdout()
		raw, i, err := ask(r.cmd.Context(), r.client, "/api/v1/info", "it does not report a version", func(i admin.Info) bool { return i.Version != "" })
		if err != nil {
			return err
		}
		if r.json {
			return printJSON(out, raw)
		}
		err = details(out, [][2]string{
			{"version", i.Version},
			{"hub", i.HubURL},
			{"listens", i.Addresses.Public},
			{"operator", i.Addresses.Admin},
			{"store", strings.TrimSpace(i.Store.Kind + " " + i.Store.Location)},
			{"store id", i.Store.ID},
			{"node", i.NodeID},
			{"shards", shardsOf(i)},
			{"started", moment(i.StartedAt, r.now)},
			{"up", quantity.SpanText(seconds(i.Uptime))},
		})
		if err != nil || len(i.Nodes) < 2 {
			return err
		}
		return nodes(r, out, i)
	})
}

// shardsOf counts the shards that hubs own, and names those that no hub owns.
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
func nodes(r *run, out io.Writer, i admin.Info) error {
	g := grid{out: out, width: r.env.width(out)}
	var rows [][]string
	for _, n := range i.Nodes {
		shards, seen := strconv.Itoa(n.Shards), n.SeenAt
		if i.NodesError != "" {
			shards = "-"
		}
		if seen.After(r.now) { // while the command waited for the answer
			seen = r.now
		}
		columns, texts := split([]cell{
			{"NODE", whole, n.ID},
			{"SHARDS", whole, shards},
			{"LISTENS", dropped, n.Addresses.Public},
			{"OPERATOR", dropped, n.Addresses.Admin},
			{"VERSION", dropped, n.Version},
			{"STARTED", dropped, away(n.StartedAt, r.now)},
			{"SEEN", whole, away(seen, r.now)},
			{"OWNS", dropped, shorten(n.Owns, shownOwns)},
		})
		g.columns, rows = columns, append(rows, texts)
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return g.write(rows)
}
