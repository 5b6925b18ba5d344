package app

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/seal"
	"github.com/rshub/rshub/store/embedstore"
)

// openStore opens the store with the keys of --seal-key-file, and tells the
// operator which of them it still needs.
func (a *App) openStore() error {
	var o embedstore.Options
	if name := a.cfg.SealKeyFile; name != "" {
		keys, exposed, err := seal.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading --seal-key-file: %w", err)
		}
		if exposed {
			a.log.Warn("everybody on this machine may read or change the keys that seal secrets; end that with: chmod o= "+name, zap.String("event", "seal_keys_exposed"))
		}
		o.Keys = keys
	}
	var err error
	if a.embedded, err = embedstore.Open(a.cfg.DataDir, o); err != nil {
		return err
	}
	if s := a.embedded.Secrets(); s.Key != nil {
		a.log.Info("every stored secret is sealed with one key, and no other is needed any more",
			zap.String("event", "secrets_sealed"), zap.Stringer("key", s.Key), zap.Int("resealed", s.Resealed), zap.Stringers("retired", s.Retired))
	}
	return nil
}
