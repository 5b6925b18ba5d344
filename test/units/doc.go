// Package units runs the command lines of the units in deploy/systemd as systemd would, and holds
// the units to their score of hardening.
package units
