package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
)

const jsonLines = "print one JSON object a line, as the API gives it"

// Info is `rshub info`.
func Info(env Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "info", Short: "Show what a running hub is and where it listens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.client(env)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.get(cmd.Context(), "/api/v1/info", nil, &raw); err != nil {
				return err
			}
			var i admin.Info
			if err := json.Unmarshal(raw, &i); err != nil || i.Version == "" {
				return Fail(ExitFailure, "what answers at %s is not a hub's operator listener", c.base)
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			for _, row := range [][2]string{
				{"version", i.Version},
				{"hub", i.HubURL},
				{"listens", i.Addresses.Public},
				{"operator", i.Addresses.Admin},
				{"store", strings.TrimSpace(i.Store.Kind + " " + i.Store.Location)},
				{"store id", i.Store.ID},
				{"node", i.NodeID},
				{"nodes", nodes(i.Nodes)},
				{"up", span(time.Duration(i.Uptime * float64(time.Second)))},
			} {
				say(w, "%s\t%s\n", row[0], plain(row[1]))
			}
			return w.Flush()
		},
	}
	f.add(cmd, "print the JSON that the API gives")
	return cmd
}

func nodes(all []admin.Node) string {
	var s []string
	for _, n := range all {
		s = append(s, fmt.Sprintf("%s (%d shards)", n.ID, n.Shards))
	}
	return strings.Join(s, ", ")
}

// printJSON prints what the API gave as one line, with the members that this
// version does not know.
func printJSON(w io.Writer, raw json.RawMessage) error {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err := line.WriteTo(w)
	return err
}

// Topic is `rshub topic`.
func Topic(env Env) *cobra.Command {
	return Group("topic", "Look at the topics of a hub", list(env, table[admin.Topic]{
		use: "ls", short: "List the topics of a hub", path: "/api/v1/topics", none: "This hub has no topic yet: one begins with its first notification.",
		header: []string{"TOPIC", "KIND", "UNTIL", "SUBSCRIPTIONS", "KEPT", "SIZE", "GAPS"},
		row: func(t admin.Topic) []string {
			subscriptions := "-"
			if t.Subscriptions != nil {
				subscriptions = strconv.Itoa(*t.Subscriptions)
			}
			return []string{
				t.URL, t.Kind, instant(t.LastUntil), subscriptions,
				strconv.FormatInt(t.Retained.Entries, 10), size(t.Retained.Bytes), strconv.Itoa(len(t.Gaps)),
			}
		},
	}))
}

// Subscription is `rshub sub`.
func Subscription(env Env) *cobra.Command {
	return Group("sub", "Look at the subscriptions of a hub", list(env, table[admin.Subscription]{
		use: "ls", short: "List the subscriptions of a hub", path: "/api/v1/subscriptions", none: "No such subscription.",
		filters: map[string]string{
			"topic": "only those to this topic `URL`",
			"state": "only those in this `STATE`: pending, active, failing or ended",
			"host":  "only those with a callback at this `HOST`",
		},
		header: []string{"ID", "STATE", "LAG", "EXPIRES", "LAST", "CALLBACK", "TOPIC"},
		row: func(s admin.Subscription) []string {
			lag, expires := "-", "-"
			if s.Lag != nil {
				lag = strconv.FormatUint(s.Lag.Notifications, 10)
				if s.Lag.Seconds > 0 {
					lag += " (" + span(time.Duration(s.Lag.Seconds*float64(time.Second))) + ")"
				}
			}
			if s.EndedAt.IsZero() && !s.ExpiresAt.IsZero() {
				expires = "expired" // and may be taken up again
				if left := time.Until(s.ExpiresAt); left > 0 {
					expires = "in " + span(left)
				}
			}
			return []string{s.ID, s.State, lag, expires, last(s), s.Callback, s.Topic}
		},
	}))
}

// last says how the last attempt of s went, and how many failed.
func last(s admin.Subscription) string {
	result := first(s.EndReason, s.LastError)
	if result == "" && s.LastStatus != 0 {
		result = strconv.Itoa(s.LastStatus)
	}
	if s.Attempt > 0 {
		result += fmt.Sprintf(" x%d", s.Attempt)
	}
	return first(strings.TrimSpace(result), "-")
}

// table is a list of the API and how it looks to a person.
type table[T any] struct {
	use, short, path string
	none             string            // what to say where there is nothing
	filters          map[string]string // query parameters that are flags, and their help
	header           []string
	row              func(T) []string
}

func list[T any](env Env, t table[T]) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{Use: t.use, Short: t.short, Args: cobra.NoArgs}
	for name, help := range t.filters {
		cmd.Flags().String(name, "", help)
	}
	f.add(cmd, jsonLines)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.client(env)
		if err != nil {
			return err
		}
		query := url.Values{}
		for name := range t.filters {
			if v := cmd.Flag(name).Value.String(); v != "" {
				query.Set(name, v)
			}
		}
		// Each page is written out before the next one is asked for.
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		count := 0
		err = c.pages(cmd.Context(), t.path, query, func(items []json.RawMessage) error {
			for _, raw := range items {
				if f.json {
					if err := printJSON(cmd.OutOrStdout(), raw); err != nil {
						return err
					}
					continue
				}
				if count == 0 {
					say(w, "%s\n", strings.Join(t.header, "\t"))
				}
				count++
				var item T
				if err := json.Unmarshal(raw, &item); err != nil {
					return Fail(ExitFailure, "the answer of the hub at %s can't be read: %w; is it of another version?", c.base, err)
				}
				cells := t.row(item)
				for i := range cells {
					cells[i] = plain(cells[i])
				}
				say(w, "%s\n", strings.Join(cells, "\t"))
			}
			return w.Flush()
		})
		if err == nil && count == 0 && !f.json {
			say(cmd.ErrOrStderr(), "%s\n", t.none)
		}
		return err
	}
	return cmd
}
