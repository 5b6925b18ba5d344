// Package telemetry turns what the parts of a hub tell of themselves into figures
// for Prometheus and traces for OpenTelemetry. The parts know neither: each has
// a function in its options that it calls with what happened, and internal/app
// connects the two. Nothing here may hold up what it measures.
package telemetry
