// Package bench measures the hub as a whole. Every figure is a ratio to a
// calibration loop that runs in the same process, interleaved with it, since
// absolute times move twofold from run to run on a shared machine.
package bench
