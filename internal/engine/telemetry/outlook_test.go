package telemetry

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/admin"
)

// Gauges of what is to come follow from Now, and are harmless as long as that is empty.
func TestOutlook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now Now
		m := NewMetrics("v1", Sources{LossAfter: 72 * time.Hour, Now: func() Now { return now }})
		shows := func(lines ...string) {
			t.Helper()
			page := scrape(m)
			for _, line := range lines {
				if !strings.Contains(page, "\n"+line+"\n") {
					t.Errorf("there is no line %s", line)
				}
			}
		}
		shows("rshub_first_loss_seconds +Inf", "rshub_loss_after_seconds 259200", "rshub_journal_bytes 0", "rshub_journal_used_ratio 0",
			`rshub_certificate_not_after_timestamp_seconds{listener="admin"} 0`, `rshub_reload_success{what="publishers"} 1`, `rshub_reload_timestamp_seconds{what="certificate"} 0`)
		now = Now{
			Journal: admin.JournalNow{Topics: 2, Entries: 7, Bytes: 250, Limit: 1000}, FirstLoss: time.Now().Add(time.Hour),
			Certificates: map[string]time.Time{PublicListener: time.Unix(1_800_000_000, 0)},
			Reloads: map[Reloadable]Reload{
				ReloadCertificate: {At: time.Unix(1_700_000_000, 0)}, ReloadPublishers: {At: time.Unix(1_700_000_001, 0), Failed: true},
			},
		}
		shows("rshub_first_loss_seconds 3600", "rshub_journal_topics 2", "rshub_journal_notifications 7", "rshub_journal_bytes 250", "rshub_journal_limit_bytes 1000", "rshub_journal_used_ratio 0.25",
			`rshub_certificate_not_after_timestamp_seconds{listener="public"} 1.8e+09`, `rshub_certificate_not_after_timestamp_seconds{listener="admin"} 0`,
			`rshub_reload_success{what="publishers"} 0`, `rshub_reload_success{what="certificate"} 1`, `rshub_reload_timestamp_seconds{what="certificate"} 1.7e+09`)
		time.Sleep(2 * time.Hour)
		shows("rshub_first_loss_seconds 0")
		now.FirstLoss = time.Time{}
		shows("rshub_first_loss_seconds +Inf")
	})
}
