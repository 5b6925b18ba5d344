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
	return Group("notification", "Look at one notification and how far it got", onItem(env, notifications, &cobra.Command{
		Use: "info ID", Short: "Show one notification, and to how many subscriptions it was delivered",
		Long: `Shows a notification that is kept, and how many subscriptions got it, will get it
and will not. Its id is in the hub's answer to the publish, in the Webhook-Id of
each delivery and in ` + "`rshub topic notifications`" + `; so much of it as no other one
begins like is enough.`,
		Example: `  rshub notification info 01a1fde0-b7e1-783d-bab2-93400a88ebae
  rshub notification info 01a1fde0-b7e1-783d-bab2-93400a88ebae --json`,
	}, nil, func(j *job[admin.NotificationStatus]) error {
		n := j.item
		rows := [][2]string{
			{"id", n.ID},
			{"topic", n.Topic},
			{"kind", n.Kind},
			{"interval", interval(n.From, n.Until)},
			{"media type", n.MediaType},
		}
		if n.Kind != "content" {
			rows = append(rows, [2]string{"entries", resourcesync.Counts(n.Counts).Words()})
		}
		return j.show(append(rows,
			[2]string{"size", quantity.BytesText(n.Bytes)},
			[2]string{"sha256", n.SHA256},
			[2]string{"received", moment(n.ReceivedAt, j.now)},
			[2]string{"delivered", strconv.Itoa(n.Delivered)},
			[2]string{"pending", strconv.Itoa(n.Pending)},
			[2]string{"skipped", strconv.Itoa(n.Skipped)},
			[2]string{"counted", moment(n.AsOf, j.now)},
		))
	}))
}
