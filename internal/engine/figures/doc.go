// Package figures keeps metrics for Prometheus and answers scrapes. The hub, the Source and the
// Destination share it. Each of them defines its own metrics.
//
// Every metric exists from the start with 0, so that a rate over the first failure is right.
// No metric is added after Seal. Except where a person configured it, no label is a URL, a
// host or an id: each has a few values that are known beforehand.
package figures
