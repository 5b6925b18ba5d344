package cli

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
)

// Streams is `rshub streams`.
func Streams(env Env) *cobra.Command {
	var topic string
	cmd := new(clientFlags).onHub(env, jsonLines, &cobra.Command{
		Use: "streams", Short: "List the streams that readers have open", Args: NoArguments,
		Long: `Lists the streams that readers have open at a hub, the oldest first. A reader that is
behind does not have all that there is; the time is how long the hub has waited for it
to take something. Streams belong to a hub: with several on the store, the last lines
say how many each has, and --admin-url asks another one.`,
		Example: `  rshub streams --topic https://example.org/changes/
  rshub streams --json | jq -r .requester | sort | uniq -c`,
	}, func(r *run, _ []string) error {
		err := table[admin.Stream]{
			path: "/api/v1/streams", query: filters(map[string]string{"topic": topic}), none: "No reader has a stream open at this hub.",
			row: func(s admin.Stream, now time.Time) []cell {
				return []cell{
					{"ID", whole, strconv.FormatUint(s.ID, 10)},
					{"REQUESTER", whole, s.Requester},
					{"READER", dropped, s.Reader},
					{"OPEN", whole, quantity.SpanText(now.Sub(s.OpenedAt))},
					{"SENT", dropped, strconv.FormatUint(s.Notifications, 10)},
					{"GAPS", dropped, strconv.FormatUint(s.Gaps, 10)},
					{"SIZE", dropped, quantity.BytesText(int64(s.Bytes))}, //nolint:gosec // no stream is that long
					{"BEHIND", whole, progressOf(s)},
					{"TOPICS", asURL, strings.Join(s.Topics, " ")},
				}
			},
		}.print(r)
		if err != nil || r.json {
			return err
		}
		var page admin.StreamsPage
		if err := r.client.get(r.cmd.Context(), "/api/v1/streams", url.Values{"limit": {"1"}}, &page); err != nil {
			return err
		}
		if len(page.Hubs) > 1 {
			for _, h := range page.Hubs {
				say(r.cmd.ErrOrStderr(), "Hub %s: %d.\n", Line(h.ID), h.Streams)
			}
		}
		if page.HubsError != "" {
			say(r.cmd.ErrOrStderr(), "The counts of other hubs could not be read: %s.\n", Line(page.HubsError))
		}
		return nil
	})
	cmd.Flags().StringVar(&topic, "topic", "", "only streams of the topic with this `URL`")
	return cmd
}

// progressOf says whether a stream is, and for how long the hub waits for its reader.
func progressOf(s admin.Stream) string {
	switch {
	case s.BlockedSeconds >= 1:
		return "waits " + quantity.SpanText(seconds(s.BlockedSeconds))
	case s.Behind:
		return "yes"
	}
	return "-"
}
