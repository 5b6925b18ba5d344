package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
)

// Refusals is `rshub refusals`.
func Refusals(env Env) *cobra.Command {
	var topic, kind string
	cmd := new(clientFlags).onHub(env, "print one JSON object a line", &cobra.Command{
		Use: "refusals", Short: "Show what the hubs refused in the last day, and why", Args: cobra.NoArgs,
		Long: `Shows the requests that all hubs on the store refused in the last 24 hours, the
oldest first: publishes, pings, and subscriptions that were denied or that their
callback did not confirm, each with the sentence that the requester got. The store
keeps the latest 1,000. Of one requester few a minute are kept; "+N" says how many more
there were.`,
		Example: `  rshub refusals
  rshub refusals --kind publish --topic https://example.org/changes/
  rshub refusals --json | jq -r .detail`,
	}, func(r *run, _ []string) error {
		query := url.Values{"limit": {strconv.Itoa(admin.MaxLimit)}}
		for name, value := range map[string]string{"topic": topic, "kind": kind} {
			if value != "" {
				query.Set(name, value)
			}
		}
		var page admin.Page[json.RawMessage]
		if err := r.client.get(r.cmd.Context(), "/api/v1/refusals", query, &page); err != nil {
			return err
		}
		for _, raw := range slices.Backward(page.Items) {
			if err := printRefusal(r, raw); err != nil {
				return err
			}
		}
		if len(page.Items) == 0 {
			say(r.cmd.ErrOrStderr(), "Nothing was refused.\n")
		}
		return nil
	})
	cmd.Flags().StringVar(&topic, "topic", "", "only those about the topic with this `URL`")
	cmd.Flags().StringVar(&kind, "kind", "", "only those of this `KIND`: publish, ping, fetch, subscribe, unsubscribe or post")
	return cmd
}

func printRefusal(r *run, raw json.RawMessage) error {
	if r.json {
		return printJSON(r.cmd.OutOrStdout(), raw)
	}
	f, err := decode[admin.Refused](r.client, raw)
	if err != nil {
		return err
	}
	parts := []string{f.At.UTC().Format(time.RFC3339), f.Kind, f.Problem}
	if f.Status > 0 {
		parts = append(parts, strconv.Itoa(f.Status))
	}
	for _, part := range []string{f.Requester, f.Publisher, f.CallbackHost, f.Topic} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	text := strings.Join(parts, " ") + ": " + f.Detail
	if f.LeftOut > 0 {
		text += fmt.Sprintf(" (+%d)", f.LeftOut)
	}
	_, err = fmt.Fprintln(r.cmd.OutOrStdout(), Line(text))
	return err
}
