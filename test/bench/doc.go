// Package bench measures the hub as a whole. Every figure is a ratio to a calibration loop that
// runs in the same process, interleaved with it, because absolute times vary twofold between runs
// on a shared machine.
package bench
