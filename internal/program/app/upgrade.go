package app

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/cluster"
)

// upgradePending reports whether an upgrade of the store's format is not finished yet.
func (b *backend) upgradePending() bool { return b.upgrader != nil && b.upgrader.Pending() }

// upgrades are what the operator's listener does about the format of the store; nil: nothing.
func (b *backend) upgrades() *admin.Upgrades {
	u := b.upgrader
	if u == nil {
		return nil
	}
	return &admin.Upgrades{
		Status: func(ctx context.Context) (admin.Upgrade, error) {
			f, err := u.Formats(ctx)
			out := admin.Upgrade{State: admin.UpgradeFinished, Format: f.Written, Newest: f.Newest}
			for _, n := range f.Older {
				out.OlderHubs = append(out.OlderHubs, n.Known())
			}
			switch {
			case f.Pending() && f.Closed:
				out.State = admin.UpgradeBegun
			case f.Pending():
				out.State = admin.UpgradePending
			}
			return out, err
		},
		Finish: func(ctx context.Context) error {
			err := u.FinishUpgrade(ctx)
			if errors.As(err, new(*cluster.OlderHubsError)) || errors.Is(err, cluster.ErrUpgradeRuns) {
				return fmt.Errorf("%w: %w", admin.ErrUpgradeRefused, err)
			}
			return err
		},
	}
}

// logUpgrade logs that an upgrade has to be finished.
func (a *App) logUpgrade() {
	if a.backend.upgradePending() {
		a.log.Warn("the hubs write the store so that the version before this one can read it; when you will not go back to it, run rshub upgrade finish",
			zap.String("event", "upgrade_pending"))
	}
}
