// Package quiet keeps lines about what strangers do from filling a log. Of each kind it lets the first
// lines pass, and then one from time to time, which says how many were left out. It writes no log itself.
// Metrics of its callers count all events.
package quiet
