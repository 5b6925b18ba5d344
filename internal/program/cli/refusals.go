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
	"github.com/rshub/rshub/internal/base/nearest"
)

// Refusals is `rshub refusals`.
func Refusals(env Env) *cobra.Command {
	var topic, kind string
	cmd := new(clientFlags).onHub(env, "print one JSON object a line", &cobra.Command{
		Use: "refusals", Short: "Show what the hubs refused in the last day, and why", Args: NoArguments,
		Long: `Shows the requests that all hubs on the store refused in the last 24 hours, the
oldest first: publishes, pings, and subscriptions that were denied or that their
callback did not confirm, each with the sentence that the requester got. The store
stores the latest 2,000. Of one requester it stores only a few a minute; "+N" says how
many more there were. If others were left out too, the last line says how many.`,
		Example: `  rshub refusals
  rshub refusals --kind publish --topic https://example.org/changes/
  rshub refusals --json | jq -r .detail`,
	}, func(r *run, _ []string) error {
		if kind != "" && !slices.Contains(admin.RefusalKinds, kind) {
			return Fail(ExitUsage, "--kind %s is not a kind of refusal: these are %s%s", Line(kind), strings.Join(admin.RefusalKinds, ", "), nearest.DidYouMean(kind, admin.RefusalKinds))
		}
		var all []json.RawMessage
		err := r.client.pages(r.cmd.Context(), "/api/v1/refusals", filters(map[string]string{"topic": topic, "kind": kind}), func(items []json.RawMessage) error {
			all = append(all, items...)
			return nil
		})
		if err != nil {
			return err
		}
		for _, raw := range slices.Backward(all) {
			err := output(r, raw, func(f admin.Refused) error {
				_, err := fmt.Fprintln(r.cmd.OutOrStdout(), Line(refusalText(f)))
				return err
			})
			if err != nil {
				return err
			}
		}
		switch {
		case len(all) > 0:
		case topic != "" || kind != "":
			say(r.cmd.ErrOrStderr(), "No such refusal.\n")
		default:
			say(r.cmd.ErrOrStderr(), "Nothing was refused.\n")
		}
		var kept admin.RefusedPage
		if err := r.client.get(r.cmd.Context(), "/api/v1/refusals", url.Values{"limit": {"1"}}, &kept); err != nil {
			return err
		}
		if kept.LeftOut > 0 {
			say(r.cmd.ErrOrStderr(), "The hubs store the latest %d since %s; %d are left out.\n", kept.Kept, kept.Since.UTC().Format(time.RFC3339), kept.LeftOut)
		}
		return nil
	})
	cmd.Flags().StringVar(&topic, "topic", "", "only refusals about the topic with this `URL`")
	cmd.Flags().StringVar(&kind, "kind", "", "only refusals of this `KIND`: publish, ping, fetch, subscribe, unsubscribe, read or post")
	return cmd
}

// refusalText is a refusal in a line.
func refusalText(f admin.Refused) string {
	status := ""
	if f.Status > 0 {
		status = strconv.Itoa(f.Status)
	}
	parts := []string{f.At.UTC().Format(time.RFC3339), f.Kind, f.Problem, status, f.Requester, f.Publisher, f.CallbackHost, f.Topic}
	text := strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ") + ": " + f.Detail
	if f.LeftOut > 0 {
		text += fmt.Sprintf(" (+%d)", f.LeftOut)
	}
	return text
}
