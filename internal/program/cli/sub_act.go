package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
)

func subAttempts(env Env) *cobra.Command {
	return oneSub(env, &cobra.Command{
		Use: "attempts ID", Short: "List the failed deliveries of a subscription",
		Long: "Lists the latest 50 failed deliveries and the first success after each, oldest first.\n\n" + subArgs,
		Example: `  rshub sub attempts 0b9c2a17
  rshub sub attempts 0b9c2a17 --json`,
	}, func(j *job[admin.Subscription]) error {
		return table[admin.Attempt]{
			path: subscriptions.path + "/" + j.id + "/attempts", none: "No delivery to this subscription has failed.",
			row: func(a admin.Attempt, _ time.Time) []cell {
				took := seconds(a.Duration).Round(time.Millisecond).String()
				return []cell{
					{"AT", whole, instant(a.At.Truncate(time.Second))},
					{"ATTEMPT", whole, strconv.FormatUint(uint64(a.Attempt), 10)},
					{"TOOK", dropped, took},
					{"NOTIFICATION", dropped, a.NotificationID},
					{"RESULT", asURL, cmp.Or(a.Error, strconv.Itoa(a.Status))},
				}
			},
		}.print(j.run)
	})
}

func subGaps(env Env) *cobra.Command {
	return oneSub(env, &cobra.Command{
		Use: "gaps ID", Short: "List the intervals that a subscription did not get, and why",
		Long: "Lists the intervals whose notifications a subscription missed, and why, including\nthose that all subscriptions of the topic missed.\n\n" + subArgs,
		Example: `  rshub sub gaps 0b9c2a17
  rshub sub gaps --topic https://example.org/changes/ \
      --callback https://reader.example.net/cb --json`,
	}, func(j *job[admin.Subscription]) error {
		return table[admin.Gap]{
			path: subscriptions.path + "/" + j.id + "/gaps", none: "This subscription has no gaps.",
			row: func(g admin.Gap, now time.Time) []cell {
				return []cell{
					{"FROM", whole, instant(g.From)},
					{"UNTIL", whole, instant(g.Until)},
					{"LOST", whole, lost(g.Count)},
					{"REASON", whole, g.Reason},
					{"RECORDED", dropped, away(g.At, now)},
				}
			},
		}.print(j.run)
	})
}

func subRetry(env Env) *cobra.Command {
	return oneSub(env, &cobra.Command{
		Use: "retry ID", Short: "Make the next attempt of a subscription now",
		Long: "Makes the next attempt at once: the next delivery if a subscription fails, or its\nverification if it is pending.\n" + takesEffect + subArgs,
		Example: `  rshub sub retry 0b9c2a17
  rshub sub ls --state failing --json | jq -r .id | xargs -n1 rshub sub retry`,
	}, func(j *job[admin.Subscription]) error {
		return answer(j.run, http.MethodPost, subscriptions.path+"/"+j.id+"/retry", nil, func(s admin.Subscription) string {
			switch {
			case s.PausedAt.IsZero() && s.Lag != nil && s.Lag.Notifications > 0:
				return "Delivering now to " + s.Callback + ", which " + behind(s) + "."
			case s.Request != nil:
				return "Asking " + s.Callback + " now."
			case s.Waits():
				return "Nothing waits for " + s.Callback + " any more, which " + behind(s) + "."
			}
			return "There is nothing to try: everything is delivered to " + s.Callback + "."
		})
	})
}

func subReplay(env Env) *cobra.Command {
	var from time.Time
	cmd := &cobra.Command{
		Use: "replay ID --since TIME", Short: "Deliver again what a subscription received since a time",
		Long: "Delivers again, in order, every retained notification whose `until` is after --since.\nNotifications that were not delivered yet are delivered, too.\n" + takesEffect + subArgs,
		Example: `  rshub sub replay 0b9c2a17 --since 2h
  rshub sub replay 0b9c2a17 --since 2026-01-31T12:00:00Z
  rshub sub replay --topic https://example.org/changes/ \
      --callback https://reader.example.net/cb --since 1d`,
	}
	cmd.Flags().Var(since(&from), "since", "deliver notifications that end after this `TIME`: a datetime, or how long ago as in 90s, 2h or 7d")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if from.IsZero() {
			return Fail(ExitUsage, "--since is missing: give a time ago such as --since 2h, or a datetime")
		}
		return nil
	}
	return oneSub(env, cmd, func(j *job[admin.Subscription]) error {
		return answer(j.run, http.MethodPost, subscriptions.path+"/"+j.id+"/replay", admin.ReplayRequest{Since: from.UTC()}, func(r admin.Replay) string {
			if r.Notifications == 0 {
				return "No retained notification ends after " + instant(from) + "; nothing is delivered again."
			}
			text := "Delivering " + quantity.Count(r.Notifications, "notification", "notifications") + " to " + r.Subscription.Callback + ", those that end after " + instant(from)
			if !r.Subscription.PausedAt.IsZero() {
				return text + ", as soon as it is resumed: it is paused."
			}
			return text + "."
		})
	})
}

// takesEffect is admin.WhenItTakesEffect in the help of a command.
const takesEffect = "It takes effect at once, or within 5 seconds if another hub delivers to the\nsubscription.\n\n"

// behind says how far a subscription is behind its topic, and what retention took from it.
func behind(s admin.Subscription) string {
	var lag admin.Lag
	if s.Lag != nil {
		lag = *s.Lag
	}
	text := "is behind by " + quantity.Count(lag.Notifications, "notification", "notifications")
	switch lost := quantity.Count(lag.Lost, "notification", "notifications"); {
	case lag.Notifications == 0 && lag.Lost == 0:
		return "missed nothing"
	case lag.Notifications == 0:
		return "missed " + lost + " that retention took"
	case lag.Lost > 0:
		text += ", and missed " + lost + " that retention took"
	}
	return text
}

func subPause(env Env) *cobra.Command {
	return oneSub(env, &cobra.Command{
		Use: "pause ID", Short: "Stop deliveries to a subscription until it is resumed",
		Long: "Stops deliveries to a subscription until `rshub sub resume`. Its lease continues, and\nso does the retention of its topic: what is trimmed meanwhile becomes a gap.\n" + takesEffect + subArgs,
		Example: `  rshub sub pause 0b9c2a17
  rshub sub ls --state paused`,
	}, func(j *job[admin.Subscription]) error {
		return answer(j.run, http.MethodPost, subscriptions.path+"/"+j.id+"/pause", nil, func(s admin.Subscription) string {
			return "Paused: " + s.Callback + " gets nothing of " + s.Topic + " until it is resumed."
		})
	})
}

func subResume(env Env) *cobra.Command {
	return oneSub(env, &cobra.Command{
		Use: "resume ID", Short: "Let a paused subscription continue",
		Long:    "Lets a subscription continue where `rshub sub pause` stopped it.\n" + takesEffect + subArgs,
		Example: `  rshub sub resume 0b9c2a17`,
	}, func(j *job[admin.Subscription]) error {
		return answer(j.run, http.MethodPost, subscriptions.path+"/"+j.id+"/resume", nil, func(s admin.Subscription) string {
			return "Delivering to " + s.Callback + " again, which " + behind(s) + "."
		})
	})
}

func subVerify(env Env) *cobra.Command {
	return oneSub(env, &cobra.Command{
		Use: "verify ID", Short: "Ask a callback again whether it wants its topic",
		Long: "Sends the callback the verification request again, with the rest of its lease, and\nshows the answer. It changes nothing. The exit code is 4 if the callback does not\nconfirm.\n\n" + subArgs,
		Example: `  rshub sub verify 0b9c2a17
  rshub sub verify 0b9c2a17 --json`,
	}, func(j *job[admin.Subscription]) error {
		var raw json.RawMessage
		if err := j.client.call(j.cmd.Context(), http.MethodPost, subscriptions.path+"/"+j.id+"/verify", nil, nil, &raw); err != nil {
			return err
		}
		v, err := decode[admin.Verification](j.client, raw)
		switch out := j.cmd.OutOrStdout(); {
		case err != nil:
			return err
		case j.json:
			err = printJSON(out, raw)
		case v.Confirmed:
			say(out, "%s\n", Line("Confirmed: "+j.item.Callback+" wants "+j.item.Topic+"."))
		}
		if err != nil || v.Confirmed {
			return err
		}
		why := cmp.Or(v.Error, "it answers "+strconv.Itoa(v.Status)+" without the challenge")
		if v.Answer != "" {
			why += ", with: " + v.Answer
		}
		return Fail(ExitRefused, "%s does not confirm: %s", Line(j.item.Callback), Line(why))
	})
}

func subLink(env Env) *cobra.Command {
	var revoke bool
	cmd := &cobra.Command{
		Use: "link ID", Short: "Create a link for a subscriber to the page of its subscription",
		Long: "Creates a link to a page that shows one subscription: its state, its failed deliveries\nand its gaps. Anyone with the link may also retry and replay, at a low rate, and do\nnothing else. The link is valid for 7 days. The hub needs --subscriber-pages.\n\n" + subArgs,
		Example: `  rshub sub link 0b9c2a17
  rshub sub link 0b9c2a17 --revoke`,
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "end all links to the subscription")
	return oneSub(env, cmd, func(j *job[admin.Subscription]) error {
		at := subscriptions.path + "/" + j.id + "/link"
		if revoke {
			return answer(j.run, http.MethodDelete, at, nil, func(struct{}) string {
				return "No link to subscription " + j.id + " works any more."
			})
		}
		return report(j.run, http.MethodPost, at, nil, func(l admin.Link) error {
			say(j.cmd.OutOrStdout(), "%s\n", Line(l.URL))
			say(j.cmd.ErrOrStderr(), "Valid until %s. Anyone with the link may use it; --revoke ends it.\n", instant(l.ExpiresAt))
			return nil
		})
	})
}

func subRemove(env Env) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm ID", Short: "End a subscription, and notify its callback",
		Long: "Ends a subscription at once. Its callback gets only a notice that says so\n(hub.mode=denied). To receive anything again, the subscriber has to subscribe again.\n" + takesEffect + subArgs,
		Example: `  rshub sub rm 0b9c2a17
  rshub sub rm 0b9c2a17 --yes`,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return oneSub(env, cmd, func(j *job[admin.Subscription]) error {
		s := j.item
		if nothingToEnd(s) {
			return output(j.run, j.raw, func(s admin.Subscription) error {
				say(j.cmd.OutOrStdout(), "%s\n", Line("Nothing to end: "+s.Callback+" gets nothing more of "+s.Topic+" already ("+cmp.Or(s.EndReason, "denied")+")."))
				return nil
			})
		}
		what := fmt.Sprintf("end subscription %s: %s gets nothing more of %s", s.ID, s.Callback, s.Topic)
		if s.Lag != nil && s.Lag.Notifications > 0 {
			what += ", nor the " + quantity.Count(s.Lag.Notifications, "notification", "notifications") + " that it is behind"
		}
		if err := confirm(j.cmd, j.env, yes, what+"."); err != nil {
			return err
		}
		return answer(j.run, http.MethodDelete, subscriptions.path+"/"+j.id, nil, func(s admin.Subscription) string {
			return "Ended: " + s.Callback + " gets nothing more of " + s.Topic + ", and is notified."
		})
	})
}

// nothingToEnd reports whether a subscription or a request has ended for good. A subscription
// whose lease ran out can still be resumed.
func nothingToEnd(s admin.Subscription) bool {
	switch {
	case s.Request != nil:
		return s.Request.Denied != "" && (s.VerifiedAt.IsZero() || !s.EndedAt.IsZero())
	default:
		return !s.EndedAt.IsZero()
	}
}
