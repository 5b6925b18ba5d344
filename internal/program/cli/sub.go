package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/nearest"
	"github.com/rshub/rshub/internal/base/quantity"
)

const subArgs = `A subscription is named by its id, by at least 4 characters with which no other id
begins, or by its --topic and --callback together.`

// states are those that a subscription can be in.
var states = []string{"pending", "active", "failing", "paused", "ended"}

// Subscription is `rshub sub`.
func Subscription(env Env) *cobra.Command {
	return Group("sub", "Show and change the subscriptions of a hub",
		subList(env), subInfo(env), subAttempts(env), subGaps(env), subRetry(env), subReplay(env),
		subPause(env), subResume(env), subVerify(env), subLink(env), subRemove(env), subAll(env))
}

func subList(env Env) *cobra.Command {
	var f subFilter
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the subscriptions of a hub", Args: NoArguments,
		Long: `Lists subscriptions, by id. LAG is how many notifications a subscription is behind its
topic, and by how much time. LAST is how its last attempt ended and how many failed in
a row. NEXT is when the next one is due.`,
		Example: `  rshub sub ls
  rshub sub ls --state failing
  rshub sub ls --topic https://example.org/changes/ --host reader.example.net
  rshub sub ls --json | jq -r 'select(.lag.notifications > 100) | .callback'`,
	}
	f.add(cmd)
	return new(clientFlags).onHub(env, jsonLines, cmd, func(r *run, _ []string) error {
		query, err := f.query(r)
		if err != nil {
			return err
		}
		return subTable(query).print(r)
	})
}

// subFilter selects subscriptions.
type subFilter struct{ topic, state, host string }

func (f *subFilter) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.topic, "topic", "", "only subscriptions to this topic, given as its `URL` or id")
	cmd.Flags().StringVar(&f.state, "state", "", "only subscriptions in this `STATE`: pending, active, failing, paused or ended")
	cmd.Flags().StringVar(&f.host, "host", "", "only subscriptions with a callback at this `HOST`, with or without its port")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// query returns the filter as a query of the API.
func (f *subFilter) query(r *run) (url.Values, error) {
	for _, name := range []string{"topic", "state", "host"} {
		if flag := r.cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" { // a variable of a script that is not set
			return nil, Fail(ExitUsage, "--%s is empty; leave it out to select subscriptions of every %s", name, name)
		}
	}
	if f.state != "" && !slices.Contains(states, f.state) {
		return nil, Fail(ExitUsage, "--state %s is not a state of a subscription: these are %s%s", Line(f.state), strings.Join(states, ", "), nearest.DidYouMean(f.state, states))
	}
	query := filters(map[string]string{"topic": f.topic, "state": f.state, "host": f.host})
	if part := strings.ToLower(f.topic); isPart(part) {
		found, err := topics.find(r.cmd.Context(), r.client, part)
		if err != nil {
			return nil, err
		}
		query.Set("topic", found.id)
	}
	return query, nil
}

func subTable(query url.Values) table[admin.Subscription] {
	none := "" // an empty table says it all
	if len(query) > 0 {
		none = "No such subscription."
	}
	return table[admin.Subscription]{
		path: subscriptions.path, query: query, none: none,
		row: func(s admin.Subscription, now time.Time) []cell {
			return []cell{
				{"ID", asID, s.ID},
				{"STATE", whole, s.State},
				{"LAG", whole, cmp.Or(lag(s), "-")},
				{"LAST", whole, last(s)},
				{"NEXT", droppedLast, due(next(s), now)},
				{"EXPIRES", dropped, expires(s, now)},
				{"CALLBACK", asHost, s.Callback},
				{"TOPIC", droppedURL, s.Topic},
			}
		},
	}
}

// lag says how far s is behind; nothing where that means nothing.
func lag(s admin.Subscription) string {
	if s.Lag == nil {
		return ""
	}
	out := strconv.FormatUint(s.Lag.Notifications, 10)
	if s.Lag.Seconds > 0 {
		out += " (" + quantity.SpanText(seconds(s.Lag.Seconds)) + ")"
	}
	if s.Lag.Lost > 0 {
		out += ", " + strconv.FormatUint(s.Lag.Lost, 10) + " lost"
	}
	return out
}

// last says how the last attempt of s went, and how many failed.
func last(s admin.Subscription) string {
	return cmp.Or(s.EndReason, lastAttempt(s), "-")
}

// lastAttempt is how the last attempt of a subscription ended, and how many failed in a row.
func lastAttempt(s admin.Subscription) string {
	result := s.LastError
	if result == "" && s.LastStatus != 0 {
		result = strconv.Itoa(s.LastStatus)
	}
	if s.Attempt > 0 {
		result += fmt.Sprintf(" x%d", s.Attempt)
	}
	return strings.TrimSpace(result)
}

// next is when something is tried again: a delivery, else a verification or the
// notice of a denial.
func next(s admin.Subscription) time.Time {
	if s.NextAttemptAt.IsZero() && s.Request != nil {
		return s.Request.NextAt
	}
	return s.NextAttemptAt
}

func expires(s admin.Subscription, now time.Time) string {
	switch {
	case !s.EndedAt.IsZero() || s.ExpiresAt.IsZero():
		return "-"
	case s.ExpiresAt.After(now):
		return away(s.ExpiresAt, now)
	default:
		return "expired" // and may be renewed
	}
}

// oneSub makes cmd a command on one subscription, which may be named by its
// topic and callback as well.
func oneSub(env Env, cmd *cobra.Command, do func(j *job[admin.Subscription]) error) *cobra.Command {
	var topic, callback string
	cmd.Flags().StringVar(&topic, "topic", "", "`URL` of its topic, together with --callback instead of its id")
	cmd.Flags().StringVar(&callback, "callback", "", "`URL` of its callback, together with --topic instead of its id")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		pair := topic != "" || callback != ""
		switch {
		case pair && len(args) > 0:
			return Fail(ExitUsage, "give either the id of a subscription, or its --topic and --callback")
		case pair && (topic == "" || callback == ""):
			return Fail(ExitUsage, "give both --topic and --callback, or the id of the subscription")
		case pair:
			return nil
		}
		return Exactly(subscriptions.noun)(cmd, args)
	}
	return onItem(env, subscriptions, cmd, func(args []string) string {
		if len(args) > 0 {
			return args[0]
		}
		return pairKey(topic, callback)
	}, do)
}

func subInfo(env Env) *cobra.Command {
	return oneSub(env, &cobra.Command{
		Use: "info ID", Short: "Show one subscription",
		Long: "Shows the state of a subscription: what it received, the result of its last attempt\nand when the next one is due.\n\n" + subArgs,
		Example: `  rshub sub info 0b9c2a17
  rshub sub info --topic https://example.org/changes/ \
      --callback https://reader.example.net/cb`,
	}, func(j *job[admin.Subscription]) error {
		s := j.item
		var until time.Time
		if s.Cursor != nil {
			until = s.Cursor.Until
		}
		lease := s.ExpiresAt
		if !s.EndedAt.IsZero() {
			lease = time.Time{}
		}
		rows := [][2]string{
			{"id", s.ID},
			{"topic", s.Topic},
			{"callback", s.Callback},
			{"state", s.State},
			{"signed", map[bool]string{true: "yes", false: "no"}[s.Signed]},
			{"began", moment(s.CreatedAt, j.now)},
			{"verified", moment(s.VerifiedAt, j.now)},
			{"expires", moment(lease, j.now)},
			{"paused", moment(s.PausedAt, j.now)},
			{"ended", moment(s.EndedAt, j.now)},
			{"end reason", s.EndReason},
			{"lag", lag(s)},
			{"got until", strings.TrimPrefix(instant(until), "-")},
			{"last attempt", lastAttempt(s)},
			{"failing since", moment(s.FirstAttemptAt, j.now)},
			{"next attempt", moment(s.NextAttemptAt, j.now)},
			{"gaps", strconv.Itoa(s.Gaps)},
		}
		if r := s.Request; r != nil {
			rows = append(rows, [2]string{"request", request(*r, j.now)}, [2]string{"last failure", r.LastError}, [2]string{"denied", r.Denied})
		}
		return j.show(rows)
	})
}

// request says what a request waits for.
func request(r admin.Request, now time.Time) string {
	out := r.Mode + ", accepted " + away(r.AcceptedAt, now)
	if r.Tries > 0 {
		out += ", " + quantity.Count(r.Tries, "try", "tries") + " failed"
	}
	if !r.NextAt.IsZero() {
		out += ", next " + due(r.NextAt, now)
	}
	return out
}
