package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/clock"
)

// Events is `rshub events`.
func Events(env Env) *cobra.Command {
	var topic, host, name string
	var follow bool
	f := new(clientFlags)
	cmd := f.onHub(env, "print one JSON object a line", &cobra.Command{
		Use: "events", Short: "Show what happened to the hubs in the last hour", Args: NoArguments,
		Long: `Shows what happened to all hubs on the store in the last hour, the oldest first:
starts, shards that changed hands, files that were read again, what operators
changed, losses and damage. Each hub remembers its latest 50.`,
		Example: `  rshub events
  rshub events --name operator_action --follow
  rshub events --topic https://example.org/changes/ --json`,
	}, func(r *run, _ []string) error {
		seen := map[admin.Event]bool{}
		for {
			_, now, err := askNow(r.cmd.Context(), r.client)
			if err != nil {
				return err
			}
			fresh := map[admin.Event]bool{}
			for _, e := range slices.Backward(now.Events) {
				if fresh[e] = true; seen[e] || name != "" && e.Name != name || !strings.Contains(e.Text, topic) || !strings.Contains(e.Text, host) {
					continue
				}
				if err := printEvent(r, e); err != nil {
					return err
				}
			}
			seen = fresh
			if !follow || !clock.Sleep(r.cmd.Context(), topEvery) {
				return nil
			}
		}
	})
	cmd.Flags().StringVar(&topic, "topic", "", "only events about the topic with this `URL`")
	cmd.Flags().StringVar(&host, "host", "", "only events that name this `HOST`")
	cmd.Flags().StringVar(&name, "name", "", "only events with this `NAME`, as in the log")
	cmd.Flags().BoolVar(&follow, "follow", false, "do not end, and print new events")
	return cmd
}

func printEvent(r *run, e admin.Event) error {
	out := r.cmd.OutOrStdout()
	if r.json {
		return WriteJSON(out, e)
	}
	_, err := fmt.Fprintln(out, Line(fmt.Sprintf("%s %s %s", e.At.UTC().Format(time.RFC3339), e.Node, eventText(e))))
	return err
}
