package app

import (
	"errors"
	"reflect"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/config"
	"github.com/rshub/rshub/validate"
)

// registry is the publishers that are in force, and what was read of them.
type registry struct {
	live validate.Publishers

	mu   sync.Mutex
	read []config.Publisher
}

// set puts a list in force, or leaves all as it is.
func (r *registry) set(list []config.Publisher) error {
	publishers, err := publishers(list)
	if err == nil {
		r.live.Replace(publishers)
		r.read = list
	}
	return err
}

// Reload reads the publishers file again. Whoever is revoked in it may not
// publish any more when it returns, but for bodies that have come already. A
// file with mistakes, or that is gone, changes nothing. The other settings are
// read at the start alone.
func (a *App) Reload() {
	r, path := &a.publishers, a.cfg.PublishersFile
	r.mu.Lock()
	defer r.mu.Unlock()
	list, err := config.ReadPublishers(path)
	if len(r.read) == 0 && errors.Is(err, config.ErrNoPublishersFile) {
		err = nil // as before
	}
	before := r.read
	if err == nil {
		err = r.set(list)
	}
	if err != nil {
		a.log.Error("the publishers file could not be taken over; those of before stay in force", zap.String("event", "reload_failed"),
			zap.String("file", path), zap.Error(err))
		return
	}
	added, removed, changed := difference(before, list)
	a.log.Info("the publishers file was read again; other settings take a restart", zap.String("event", "reloaded"),
		zap.String("file", path), zap.Int("publishers", len(list)),
		zap.Strings("added", added), zap.Strings("removed", removed), zap.Strings("changed", changed))
}

// difference names the publishers that are in one list alone, or differ.
func difference(before, after []config.Publisher) (added, removed, changed []string) {
	named := func(list []config.Publisher, name string) int {
		return slices.IndexFunc(list, func(p config.Publisher) bool { return p.Name == name })
	}
	for i := range after {
		switch was := named(before, after[i].Name); {
		case was < 0:
			added = append(added, after[i].Name)
		case !reflect.DeepEqual(before[was], after[i]):
			changed = append(changed, after[i].Name)
		}
	}
	for i := range before {
		if named(after, before[i].Name) < 0 {
			removed = append(removed, before[i].Name)
		}
	}
	return added, removed, changed
}

// CheckPublishers returns an error that says what a hub could not do with these
// publishers; nil: they are right.
func CheckPublishers(list []config.Publisher) error {
	_, err := publishers(list)
	return err
}

// publishers makes of the configured publishers those of the hub.
func publishers(list []config.Publisher) ([]validate.Publisher, error) {
	out := make([]validate.Publisher, 0, len(list))
	for _, p := range list {
		topics, err := patterns(p.Topics)
		if err != nil {
			return nil, err
		}
		out = append(out, validate.Publisher{Name: p.Name, Topics: topics, TokenSHA256: p.TokenSHA256, Secret: string(p.Secret)})
	}
	return out, nil
}
