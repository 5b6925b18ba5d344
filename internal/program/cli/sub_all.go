package cli

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/nearest"
	"github.com/rshub/rshub/internal/base/quantity"
)

// manyAction is what `rshub sub all` does.
type manyAction struct {
	name, call string // here, and in the API
	asks       string // what it will do, before "N subscriptions"; empty: it does no harm
	done       string
}

var manyActions = []manyAction{
	{"retry", "retry", "", "tried now"},
	{"replay", "replay", "deliver again to", "delivered to again"},
	{"pause", "pause", "pause", "paused"},
	{"resume", "resume", "", "resumed"},
	{"rm", "end", "end", "ended"},
}

func subAll(env Env) *cobra.Command {
	var f subFilter
	var yes bool
	var from time.Time
	var names []string
	for _, a := range manyActions {
		names = append(names, a.name)
	}
	cmd := &cobra.Command{
		Use: "all ACTION", Short: "Retry, replay, pause, resume or end all subscriptions of a filter",
		Long: `Does retry, replay, pause, resume or rm with all subscriptions that --topic, --state
and --host select; without these, with all subscriptions. The help of the command for
one subscription explains the action. If subscribers would notice it, this command
first shows how many subscriptions are selected, and asks.`,
		Example: `  rshub sub all retry --state failing
  rshub sub all pause --host reader.example.net
  rshub sub all replay --topic https://example.org/changes/ --since 2h --yes`,
		ValidArgs: names,
		Args:      Exactly("action"),
	}
	f.add(cmd)
	cmd.Flags().Var(since(&from), "since", "with replay: deliver notifications that end after this `TIME`: a datetime, or how long ago as in 90s, 2h or 7d")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return new(clientFlags).onHub(env, jsonWhole, cmd, func(r *run, args []string) error {
		at := slices.Index(names, args[0])
		if at < 0 {
			return Fail(ExitUsage, "%s is not an action: these are %s%s", Line(args[0]), strings.Join(names, ", "), nearest.DidYouMean(args[0], names))
		}
		action := manyActions[at]
		if (action.name == "replay") != !from.IsZero() {
			return Fail(ExitUsage, "--since goes with replay, and only with that")
		}
		query, err := f.query(r)
		if err != nil {
			return err
		}
		req := admin.ManyRequest{Action: action.call, Since: from.UTC()}
		if action.asks != "" && !yes {
			m, err := eachPage(r, http.MethodGet, subscriptions.path+"/count", query, nil)
			if err != nil {
				return err
			}
			if err := confirm(r.cmd, r.env, yes, action.asks+" "+quantity.Count(int64(m.Matched), "subscription", "subscriptions")+"."); err != nil {
				return err
			}
		}
		m, err := eachPage(r, http.MethodPost, subscriptions.path, query, req)
		if err != nil && m.Done == 0 {
			return err
		}
		if r.json {
			if err := WriteJSON(r.cmd.OutOrStdout(), m); err != nil {
				return err
			}
		} else {
			text := quantity.Count(int64(m.Done), "subscription", "subscriptions") + " " + action.done + "."
			if m.Skipped > 0 {
				text += " " + quantity.Count(int64(m.Skipped), "was", "were") + " skipped, because there was nothing to do."
			}
			say(r.cmd.OutOrStdout(), "%s\n", text)
		}
		switch {
		case err != nil:
			return Fail(ExitPartial, "the others were not changed: %w", err)
		case m.Failed > 0:
			return Fail(ExitPartial, "%s failed: %s", quantity.Count(int64(m.Failed), "subscription", "subscriptions"), Line(m.Error))
		}
		return nil
	})
}

// eachPage repeats a call until the hub has come to the last subscription, and returns the
// sum.
func eachPage(r *run, method, path string, query url.Values, body any) (sum admin.Many, err error) {
	query.Del("after")
	for {
		var m admin.Many
		if err := r.client.call(r.cmd.Context(), method, path, query, body, &m); err != nil {
			return sum, err
		}
		sum.Matched, sum.Done, sum.Skipped, sum.Failed = sum.Matched+m.Matched, sum.Done+m.Done, sum.Skipped+m.Skipped, sum.Failed+m.Failed
		sum.Error = cmp.Or(sum.Error, m.Error)
		if m.Next == "" {
			return sum, nil
		}
		query.Set("after", m.Next)
		if m.Done > 0 {
			say(r.cmd.ErrOrStderr(), "In progress: %s so far.\n", quantity.Count(int64(sum.Done), "subscription", "subscriptions"))
		}
	}
}
