package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/nearest"
)

// Events is `rshub events`.
func Events(env Env) *cobra.Command {
	var topic, host, name string
	var follow bool
	wanted := func(e admin.Event) bool {
		return (name == "" || e.Name == name) && strings.Contains(e.Text, topic) && strings.Contains(e.Text, host)
	}
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
		if name != "" && !slices.Contains(admin.EventNames, name) {
			return Fail(ExitUsage, "--name %s is not an event that hubs remember; look for it in the log. These are remembered: %s%s",
				Line(name), strings.Join(admin.EventNames, ", "), nearest.DidYouMean(name, admin.EventNames))
		}
		var seen map[admin.Event]bool // nil: no hub has answered yet
		for failed := false; ; {
			_, now, err := askNow(r.cmd.Context(), r.client)
			switch {
			case err != nil && (seen == nil || !follow):
				return err
			case err != nil && !failed && r.cmd.Context().Err() == nil:
				if _, err := fmt.Fprintf(r.cmd.ErrOrStderr(), "%v\nTrying again.\n", err); err != nil {
					return err
				}
			}
			if failed = err != nil; !failed {
				if seen, err = printFresh(r, now.Events, seen, wanted); err != nil {
					return err
				}
			}
			if !follow || !clock.Sleep(r.cmd.Context(), topEvery) {
				return nil
			}
		}
	})
	cmd.Flags().StringVar(&topic, "topic", "", "only events about the topic with this `URL`")
	cmd.Flags().StringVar(&host, "host", "", "only events that name this `HOST`")
	cmd.Flags().StringVar(&name, "name", "", "only events with this `NAME`, such as reloaded; the error for another NAME lists those there are")
	cmd.Flags().BoolVar(&follow, "follow", false, "do not end, and print new events, also after a hub was away")
	return cmd
}

// printFresh prints the wanted events that were not seen yet, and returns those that are seen now. All
// has the newest first.
func printFresh(r *run, all []admin.Event, seen map[admin.Event]bool, wanted func(admin.Event) bool) (map[admin.Event]bool, error) {
	now := make(map[admin.Event]bool, len(all))
	for _, e := range slices.Backward(all) {
		if now[e] = true; seen[e] || !wanted(e) {
			continue
		}
		if err := printEvent(r, e); err != nil {
			return nil, err
		}
	}
	return now, nil
}

func printEvent(r *run, e admin.Event) error {
	out := r.cmd.OutOrStdout()
	if r.json {
		return WriteJSON(out, e)
	}
	_, err := fmt.Fprintln(out, Line(fmt.Sprintf("%s %s %s", e.At.UTC().Format(time.RFC3339), e.Node, eventText(e))))
	return err
}
