package admin

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"
)

// Upgrade is the format in which the hubs write the store. A new version of rshub writes
// the previous format, until the operator says that nobody goes back to the version before.
type Upgrade struct {
	// State is UpgradeFinished, UpgradePending or UpgradeBegun.
	State string `json:"state"`
	// Format is what the hubs write, and Newest what they write once the upgrade is
	// finished.
	Format int `json:"format"`
	Newest int `json:"newest"`
	// OlderHubs are the live hubs that do not know Newest, by name and version. As long as
	// there are any, the upgrade cannot be finished.
	OlderHubs []string `json:"older_hubs,omitempty"`
}

// The states of an upgrade.
const (
	UpgradeFinished = "finished"
	UpgradePending  = "pending"
	// UpgradeBegun: finishing the upgrade was interrupted. Older versions cannot open the
	// store any more. Finish it again.
	UpgradeBegun = "begun"
)

// ErrUpgradeRefused is wrapped by an error of Upgrades.Finish that the operator can do
// something about.
var ErrUpgradeRefused = errors.New("the upgrade cannot be finished now")

// Upgrades is what the API does about the format of the store.
type Upgrades struct {
	Status func(context.Context) (Upgrade, error)
	// Finish returns when all hubs write the newest format. Its error may wrap
	// ErrUpgradeRefused.
	Finish func(context.Context) error
}

func (a *api) showUpgrade(w http.ResponseWriter, r *http.Request) error {
	u, err := a.Upgrades.Status(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, u)
}

// finishUpgrade goes on if the client disconnects. It takes up to --owner-lease.
func (a *api) finishUpgrade(r *http.Request) (any, zap.Field, error) {
	if err := noBody(r); err != nil {
		return nil, zap.Skip(), err
	}
	ctx := context.WithoutCancel(r.Context())
	switch err := a.Upgrades.Finish(ctx); {
	case errors.Is(err, ErrUpgradeRefused):
		return nil, zap.Skip(), refuse(http.StatusConflict, "%v.", err)
	case err != nil:
		return nil, zap.Skip(), err
	}
	u, err := a.Upgrades.Status(ctx)
	return u, zap.Int("format", u.Format), err
}
