package main

import (
	"time"

	"github.com/rshub/rshub/internal/program/cli"
)

// drain is how long deliveries that are being received have to finish at the end.
const drain = 10 * time.Second

// callbackURL is the URL for the hub: as given, or with --dev the address itself.
func callbackURL(s *cli.Server, given string, dev bool) (string, error) {
	switch {
	case given != "":
		return given, nil
	case dev:
		return s.URL("127.0.0.1"), nil
	}
	return "", errNoCallback
}

var errNoCallback = cli.Fail(cli.ExitUsage, "--callback-url is missing: the URL at which the hub reaches this machine (with --dev it is the address of --listen)")
