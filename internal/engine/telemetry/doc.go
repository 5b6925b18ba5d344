// Package telemetry turns the events of a hub into metrics for Prometheus and traces for
// OpenTelemetry. The other packages know neither: each calls a function in its options with every
// event, and internal/program/app connects the two. Nothing here may delay what it measures.
//
// Metrics counts in memory, and scrapes read it. Traces sends spans to the collector that the
// operator names, and to nobody else. Both only observe: the store that Metrics wraps around
// another one passes on every call and times it.
package telemetry
