package main

import (
	"context"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/subscriber"
)

// wayFlags say how notifications come.
type wayFlags struct {
	via      string
	poll     cli.Span // 0: the default
	insecure bool     // a stream over plain http
}

// add adds the flags.
func (f *wayFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.via, "via", "", "`WAY` in which changes come: callback (the hub calls --callback-url), stream (rssub reads the stream of the hub, which calls nobody), poll (rssub asks the Source again and again), or auto: the callback if --callback-url is given, else the stream if the hub has one, else polling (default: auto; with --poll alone: poll)")
	flags.Var(cli.Positive(&f.poll), "poll", "ask the Source for changes every `TIME` while nothing pushes them (default: 5m)")
	flags.BoolVar(&f.insecure, "insecure-stream", false, "read the stream of a hub over plain http also if the hub is not on this machine; anyone on the way can change it then")
}

// way returns the way.
func (f *wayFlags) way() (subscriber.Via, error) {
	switch f.via {
	case "auto":
		return subscriber.ViaAuto, nil
	case "":
		if f.poll > 0 {
			return subscriber.ViaPoll, nil
		}
		return subscriber.ViaAuto, nil
	case string(subscriber.ViaCallback), string(subscriber.ViaStream), string(subscriber.ViaPoll):
		return subscriber.Via(f.via), nil
	}
	return "", cli.Fail(cli.ExitUsage, "--via %q must be auto, callback, stream or poll", f.via)
}

// check reports a flag that is missing for the way, or that the way has no use for. Calls says
// that hubs are to call a callback. With dev there is one.
func (f *wayFlags) check(flags *pflag.FlagSet, callback string, dev bool) (calls bool, err error) {
	via, err := f.way()
	if err != nil {
		return false, err
	}
	known := callback != "" || dev
	calls = via == subscriber.ViaCallback || via == subscriber.ViaAuto && known || callback != ""
	listens := []string{"unsubscribe"}
	if callback == "" { // else an earlier subscription is ended, which the hub verifies there
		listens = append(listens, "listen", "tls-cert")
	}
	useless := map[subscriber.Via][]string{
		subscriber.ViaStream: listens,
		subscriber.ViaPoll:   append(listens, "hub", "insecure-stream"),
	}
	given := "--via " + f.via
	if f.via == "" {
		given = "--poll alone"
	}
	for _, name := range useless[via] {
		if config.Given(flags, name) {
			return calls, cli.Fail(cli.ExitUsage, "with %s the changes come in another way, so --%s has no effect: leave out one of them", given, name)
		}
	}
	if calls && !known || via == subscriber.ViaAuto && !known && (config.Given(flags, "listen") || config.Given(flags, "tls-cert")) {
		return calls, errNoCallback
	}
	return calls, nil
}

// listen opens the listeners: that of the callback, whose URL it sets, if hubs are to call it, and
// the operator's.
func listen(ctx context.Context, server *cli.ServerFlags, calls, dev bool, callback *string, log *slog.Logger) (*cli.Server, error) {
	if !calls {
		*callback = ""
		return server.OpenOperator(ctx, log)
	}
	l, err := server.Open(ctx, dev, "callback", log)
	if err == nil {
		*callback, err = callbackURL(l, *callback, dev)
	}
	return l, err
}
