package app

import (
	"math"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/config"
)

// What a hub opens at most, beside what its settings say.
const (
	ownFiles     = 64  // the store's files, listeners, the log, what is being read again
	calledAtOnce = 704 // verifications and denials (512), fetches of topics (192)
)

// openFilesNeeded is how many files and connections a hub may have open at once
// within its limits: connections that come in, deliveries under way with as many idle
// connections as two for each, verifications, fetches, and those to the store.
func openFilesNeeded(cfg *config.Config) uint64 {
	n := ingress.PublicTotal + adminTotal + ownFiles + calledAtOnce + 3*max(cfg.MaxInflight, 0)
	if connections := kindOf(cfg).connections; connections != nil {
		n += connections(cfg)
	}
	return uint64(n)
}

// warnOpenFiles tells the operator where the process may open fewer than that. The
// runtime has raised the limit as far as the process may.
func (a *App) warnOpenFiles() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		limit.Cur = math.MaxUint64 // not known
	}
	if need := openFilesNeeded(&a.cfg); limit.Cur < need {
		a.log.Warn("the process may open too few files and connections for the limits of this hub: raise ulimit -n (LimitNOFILE= of systemd), or lower --max-inflight",
			zap.String("event", "few_open_files"), zap.Uint64("limit", limit.Cur), zap.Uint64("needed", need))
	}
}
