// Package telemetry turns what the parts of a hub tell of themselves into figures
// for Prometheus and traces for OpenTelemetry. The parts know neither: each has
// a function in its options that it calls with what happened, and internal/program/app
// connects the two. Nothing here may hold up what it measures.
//
// Metrics counts in memory and is read by scrapes; Traces sends spans to the
// collector that the operator names, and to nobody else. Both read what they are
// told and change nothing: the store that Metrics puts around another one passes
// on what it is asked, and times it.
package telemetry
