// Package packages makes the packages, installs them in a Debian of their own that systemd-nspawn
// boots, and runs, upgrades, removes and purges them there with the systemd of that Debian. `make
// packaged` runs it: it needs root, debootstrap, systemd-nspawn, lintian and rpm.
package packages
