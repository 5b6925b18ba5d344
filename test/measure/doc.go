// Measure runs the benchmarks that docs/measurements.md quotes, and writes what it finds there: the
// machine, and a table of ratios and sizes with their goals. `make measure` runs it.
package main
