// Package quiet keeps lines about what strangers do from filling a log: of each kind it lets the first
// ones pass and then one each while, which says how many were left out. It writes no log itself, and what
// is counted as a metric is counted in full by whoever asks.
package quiet
