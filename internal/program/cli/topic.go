package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/resourcesync"
)

const topicArgs = `A topic is named by its URL, by its id, or by at least 4 characters with which no
other id begins.`

// Topic is `rshub topic`, with more commands.
func Topic(env Env, more ...*cobra.Command) *cobra.Command {
	return Group("topic", "Show the topics of a hub, reset or remove one",
		append([]*cobra.Command{topicList(env), topicInfo(env), topicNotifications(env), topicReset(env), topicRemove(env)}, more...)...)
}

func topicList(env Env) *cobra.Command {
	return new(clientFlags).onHub(env, jsonLines, &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the topics of a hub", Args: NoArguments,
		Example: `  rshub topic ls
  rshub topic ls --json | jq -r 'select(.gaps != []) | .url'     those with gaps`,
	}, func(r *run, _ []string) error {
		return table[admin.Topic]{
			path: topics.path, none: "This hub has no topic yet. The first notification creates one.",
			row: func(t admin.Topic, now time.Time) []cell {
				return []cell{
					{"ID", asID, t.ID},
					{"TOPIC", asHost, t.URL},
					{"KIND", dropped, cmp.Or(t.Kind, "-")},
					{"UNTIL", whole, instant(t.LastUntil)},
					{"SUBSCRIPTIONS", dropped, subscribers(t, "-")},
					{"KEPT", dropped, strconv.FormatInt(t.Retained.Entries, 10)},
					{"SIZE", dropped, quantity.BytesText(t.Retained.Bytes)},
					{"GAPS", whole, strconv.Itoa(len(t.Gaps))},
					{"PING", dropped, cmp.Or(ping(t.Fetch, now), "-")},
				}
			},
		}.print(r)
	})
}

func subscribers(t admin.Topic, unknown string) string {
	if t.Subscriptions == nil {
		return unknown
	}
	return strconv.Itoa(*t.Subscriptions)
}

// ping is the result of the last ping of a topic; empty if there was none.
func ping(f *admin.Fetch, now time.Time) string {
	switch {
	case f == nil:
		return ""
	case f.Waiting && f.Tries == 0:
		return "waits"
	case f.Waiting:
		return cmp.Or(f.Outcome, "failed") + " x" + strconv.Itoa(f.Tries) + ", again " + due(f.NextAttemptAt, now)
	default:
		return cmp.Or(f.Outcome, "-")
	}
}

func topicInfo(env Env) *cobra.Command {
	return onItem(env, topics, &cobra.Command{
		Use: "info URL|ID", Short: "Show one topic",
		Long: "Shows the state of a topic: its last interval, its retained notifications, its gaps,\nand the result of its last ping.\n\n" + topicArgs,
		Example: `  rshub topic info https://example.org/changes/
  rshub topic info 6ba7b810 --json`,
	}, nil, func(j *job[admin.Topic]) error {
		t := j.item
		rows := [][2]string{
			{"topic", t.URL},
			{"id", t.ID},
			{"kind", cmp.Or(t.Kind, "not known yet: it was only pinged, or reset")},
			{"last interval", interval(t.LastFrom, t.LastUntil)},
			{"next from", nextFrom(t)},
			{"newest", t.Head.ID},
			{"received", moment(t.Head.ReceivedAt, j.now)},
			{"kept", quantity.Count(t.Retained.Entries, "notification", "notifications") + ", " + quantity.BytesText(t.Retained.Bytes)},
			{"subscriptions", subscribers(t, "")},
		}
		for _, p := range t.Pauses {
			rows = append(rows, [2]string{"paused", pause(p, j.now)})
		}
		for i, g := range t.Gaps {
			rows = append(rows, [2]string{"gap " + strconv.Itoa(i+1), gapLine(g, j.now)})
		}
		if f := t.Fetch; f != nil {
			rows = append(rows,
				[2]string{"pinged", moment(f.PingedAt, j.now)},
				[2]string{"ping", ping(f, j.now)},
				[2]string{"ping detail", f.Detail},
				[2]string{"fetched", moment(f.At, j.now)},
			)
			if f.Status != 0 {
				rows = append(rows, [2]string{"fetch status", strconv.Itoa(f.Status)})
			}
		}
		return j.show(rows)
	})
}

// pause says in a line why subscriptions of a topic wait.
func pause(p admin.Pause, now time.Time) string {
	if p.Reason != "damaged" {
		return "all wait since " + moment(p.Since, now) + ", because the store cannot be read: " + p.Error
	}
	which := fmt.Sprintf("notification %d", p.Seq)
	if p.NotificationID != "" {
		which += " (" + p.NotificationID + ")"
	}
	if p.PassedOver {
		return "no more: " + which + " is damaged and is passed over: " + p.Error
	}
	return which + " is damaged since " + moment(p.Since, now) + "; subscriptions that have not received it wait, and pass it over " +
		moment(p.PassedOverAt, now) + ": " + p.Error
}

// nextFrom says where the next notification of a topic has to start.
func nextFrom(t admin.Topic) string {
	switch {
	case t.Reset:
		return "anywhere: it was reset"
	case t.Kind == "content" || t.LastUntil.IsZero():
		return ""
	default:
		return instant(t.LastUntil)
	}
}

// resetting is what a reset of the topic would do.
func resetting(t admin.Topic) string {
	what := "let the next notification of " + t.URL + " start anywhere"
	if from := nextFrom(t); from != "" && !t.Reset {
		what += "; now it has to start at " + from + ", and what lies between is lost and becomes a gap"
	}
	return what + "."
}

func interval(from, until time.Time) string {
	if from.IsZero() && until.IsZero() {
		return ""
	}
	return instant(from) + " to " + instant(until)
}

func gapLine(g admin.Gap, now time.Time) string {
	return interval(g.From, g.Until) + ", " + lost(g.Count) + ", " + g.Reason + ", recorded " + away(g.At, now)
}

// lost says how many notifications a gap is of.
func lost(n uint64) string {
	if n == 0 {
		return "unknown"
	}
	return quantity.Count(n, "notification", "notifications")
}

func topicNotifications(env Env) *cobra.Command {
	var from, at time.Time
	var newest bool
	cmd := &cobra.Command{
		Use: "notifications URL|ID", Short: "List the retained notifications of a topic, oldest first",
		Long: "Lists the retained notifications of a topic, oldest first. ENTRIES counts the\nchanges: " + resourcesync.ChangeSigns() + ".\n\n" + topicArgs,
		Example: `  rshub topic notifications https://example.org/changes/
  rshub topic notifications https://example.org/changes/ --since 2h
  rshub topic notifications https://example.org/changes/ --newest | head
  rshub topic notifications https://example.org/changes/ --at 2026-01-31T12:00:00Z
  rshub topic notifications 6ba7b810 --since 2026-01-31T12:00:00Z --json`,
	}
	cmd.Flags().Var(since(&from), "since", "only notifications that end after this `TIME`: a datetime, or how long ago as in 2h")
	cmd.Flags().Var(since(&at), "at", "only the notification whose interval contains this `TIME`: a datetime, or how long ago as in 2h")
	cmd.Flags().BoolVar(&newest, "newest", false, "the newest first")
	cmd.MarkFlagsMutuallyExclusive("newest", "since", "at")
	return onItem(env, topics, cmd, nil, func(j *job[admin.Topic]) error {
		query, none := url.Values{}, "This topic has no retained notification."
		if newest {
			query.Set("order", "newest")
		}
		if !from.IsZero() {
			query.Set("since", from.UTC().Format(time.RFC3339Nano))
			none = "No notification of this topic that ends after " + from.UTC().Format(time.RFC3339) + " is kept."
		}
		if !at.IsZero() {
			query.Set("at", at.UTC().Format(time.RFC3339Nano))
			none = "No notification whose interval has " + at.UTC().Format(time.RFC3339) + " in it is kept."
		}
		return table[admin.Notification]{
			path: topics.path + "/" + j.id + "/notifications", query: query, none: none,
			row: func(n admin.Notification, now time.Time) []cell {
				return []cell{
					{"ID", whole, n.ID},
					{"FROM", dropped, instant(n.From)},
					{"UNTIL", whole, instant(n.Until)},
					{"ENTRIES", whole, entries(n)},
					{"SIZE", whole, quantity.BytesText(n.Bytes)},
					{"RECEIVED", dropped, away(n.ReceivedAt, now)},
				}
			},
		}.print(j.run)
	})
}

func entries(n admin.Notification) string {
	if n.Kind == "content" {
		return "-"
	}
	return resourcesync.Counts(n.Counts).Signs()
}

func topicReset(env Env) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "reset URL|ID", Short: "Let the next notification of a topic start anywhere",
		Long: `Lets the next notification of a topic start anywhere and be of any kind. Use it for a
Source that no longer knows where it has to start. The time in between is recorded as a
gap.

` + topicArgs,
		Example: `  rshub topic reset https://example.org/changes/
  rshub topic reset https://example.org/changes/ --yes`,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return onItem(env, topics, cmd, nil, func(j *job[admin.Topic]) error {
		if err := confirm(j.cmd, j.env, yes, resetting(j.item)); err != nil {
			return err
		}
		return answer(j.run, http.MethodPost, topics.path+"/"+j.id+"/reset", nil, func(t admin.Topic) string {
			return "The next notification of " + t.URL + " may start anywhere."
		})
	})
}
