package app

import (
	"math"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/config"
)

// The most that a hub opens besides what its settings limit.
const (
	ownFiles     = 64  // the store's files, listeners, the log, files that are read again
	calledAtOnce = 704 // verifications and denials (512), fetches of topics (192)
)

// openFilesNeeded is how many files and connections a hub may have open at once
// within its limits: inbound connections, streams, deliveries with two idle connections each,
// verifications, fetches, and connections to the store.
func openFilesNeeded(cfg *config.Config) uint64 {
	n := ingress.PublicTotal + adminTotal + ownFiles + calledAtOnce + 3*max(cfg.MaxInflight, 0) + max(cfg.MaxStreams, 0)
	if connections := kindOf(cfg).connections; connections != nil {
		n += connections(cfg)
	}
	return uint64(n)
}

// warnOpenFiles logs a warning if the process may open fewer than that. The runtime has
// already raised the limit as far as the process may.
func warnOpenFiles(cfg *config.Config, log *zap.Logger) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		limit.Cur = math.MaxUint64 // not known
	}
	if need := openFilesNeeded(cfg); limit.Cur < need {
		log.Warn("the process may open too few files and connections for the limits of this hub: raise ulimit -n (LimitNOFILE= of systemd), or lower --max-streams or --max-inflight",
			zap.String("event", "few_open_files"), zap.Uint64("limit", limit.Cur), zap.Uint64("needed", need))
	}
}
