package cli

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
)

func topicRemove(env Env) *cobra.Command {
	var yes, force bool
	cmd := &cobra.Command{
		Use: "rm URL|ID", Short: "Remove a topic with its journal",
		Long: `Removes a topic: its notifications, its gaps, and where the next one has to start. Its
Source may publish again at any time, and may then start anywhere.

If the topic has active subscriptions, the command refuses (exit code 4). --force ends
them first: what they did not get is recorded as a gap, and each callback is notified
(hub.mode=denied). If the command was interrupted, run it again to finish.

` + topicArgs,
		Example: `  rshub topic rm https://example.org/changes/
  rshub topic rm https://example.org/changes/ --force --yes`,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	cmd.Flags().BoolVar(&force, "force", false, "also end active subscriptions")
	return onItem(env, topics, cmd, nil, func(j *job[admin.Topic]) error {
		if err := confirmRemoval(j, yes, force); err != nil {
			return err
		}
		return removeTopic(j, force)
	})
}

// confirmRemoval asks before a removal, unless the hub would refuse that anyway.
func confirmRemoval(j *job[admin.Topic], yes, force bool) error {
	t := j.item
	n := 0
	if t.Subscriptions != nil {
		n = *t.Subscriptions
	}
	if _, asked := j.env.terminal(j.cmd.InOrStdin()); asked && !yes && n > 0 && !force {
		return Fail(ExitRefused, "%s has active subscriptions: %d. End them first, or use --force to end them", Line(t.URL), n)
	}
	what := "remove " + t.URL + " with " + quantity.Count(t.Retained.Entries, "notification", "notifications") + " that it retains"
	switch {
	case force && t.Subscriptions == nil:
		what += ", and end all its active subscriptions"
	case force && n > 0:
		what += ", and end " + quantity.Count(int64(n), "active subscription", "active subscriptions")
	}
	return confirm(j.cmd, j.env, yes, what+".")
}

// removeTopic repeats the call until the hub has removed the whole topic.
func removeTopic(j *job[admin.Topic], force bool) error {
	query := url.Values{}
	if force {
		query.Set("force", "true")
	}
	for ended := 0; ; {
		var done admin.Removal
		if err := j.client.call(j.cmd.Context(), http.MethodDelete, topics.path+"/"+j.id, query, nil, &done); err != nil {
			return err
		}
		ended += done.Ended
		if !done.Removed {
			say(j.cmd.ErrOrStderr(), "In progress: %s ended so far.\n", quantity.Count(int64(ended), "subscription", "subscriptions"))
			continue
		}
		done.Ended = ended
		if j.json {
			return WriteJSON(j.cmd.OutOrStdout(), done)
		}
		text := "Removed: " + j.item.URL + "."
		if ended > 0 {
			text += " " + quantity.Count(int64(ended), "subscription", "subscriptions") + " ended."
		}
		say(j.cmd.OutOrStdout(), "%s\n", Line(text))
		return nil
	}
}
