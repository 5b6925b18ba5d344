package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/resourcesync"
)

// Notification is `rshub notification`.
func Notification(env Env) *cobra.Command {
	return Group("notification", "Show one notification and its deliveries", onItem(env, notifications, &cobra.Command{
		Use: "info ID", Short: "Show one notification, and to how many subscriptions it was delivered",
		Long: `Shows a retained notification, and how many subscriptions received it, wait for it and
passed it over. Its id is in the hub's answer to the publish, in the Webhook-Id of each
delivery and in ` + "`rshub topic notifications`" + `. A unique beginning of the
id is enough.`,
		Example: `  rshub notification info 01a1fde0-b7e1-783d-bab2-93400a88ebae
  rshub notification info 01a1fde0-b7e1-783d-bab2-93400a88ebae --json`,
	}, nil, func(j *job[admin.NotificationStatus]) error {
		n := j.item
		changes := "" // content has none
		if n.Kind != "content" {
			changes = resourcesync.Counts(n.Counts).Words()
		}
		return j.show([][2]string{
			{"id", n.ID},
			{"topic", n.Topic},
			{"kind", n.Kind},
			{"interval", interval(n.From, n.Until)},
			{"media type", n.MediaType},
			{"entries", changes},
			{"size", quantity.BytesText(n.Bytes)},
			{"sha256", n.SHA256},
			{"received", moment(n.ReceivedAt, j.now)},
			{"delivered", strconv.Itoa(n.Delivered)},
			{"pending", strconv.Itoa(n.Pending)},
			{"skipped", strconv.Itoa(n.Skipped)},
			{"counted", moment(n.AsOf, j.now)},
		})
	}))
}
