package app

import (
	"context"

	"github.com/rshub/rshub/internal/engine/telemetry"
)

// startTraces starts sending traces, if there is a collector. Sending stops after all parts
// that report to it.
func (a *App) startTraces(ctx context.Context) error {
	var err error
	a.traces, err = telemetry.NewTraces(ctx, telemetry.TraceOptions{
		Endpoint: a.cfg.OTLPEndpoint, RootCAs: a.cfg.RootCAs,
		Version: a.version, NodeID: a.cfg.NodeID, Log: a.log,
	})
	if a.traces != nil {
		a.stops.add("traces", a.traces.Stop)
	}
	return err
}
