package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
	"github.com/rshub/rshub/websub"
)

// copyFlags are the flags that describe a copy.
type copyFlags struct {
	dir, stateDir     string
	sources           string // the file with many Sources; empty: there is one
	roots, hosts      []string
	mirrors, types    []string
	hiddenAllow       []string
	tokens            []string
	parallel          int
	maxDelete         string
	maxFile           int64
	maxEntries        int
	maxTotal, minFree int64
	baseline, changes string
	selection         selectionFlags
	patches           patchFlags
	dryRun, json      bool
	call              cli.CallFlags
	log               cli.LogFlags
	callback, hub     string
	insecure          bool
	minSignature      string
	lease, checkEvery cli.Span
	way               wayFlags
	hold              cli.Span
	auditEvery        cli.Span // 0: never
	onChange          string   // a command; empty: none
	changeLimit       cli.Span // of a run of it
}

// add adds the flags that all commands on a copy have.
func (f *copyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addCopy(flags)
	f.parallel = 8
	flags.Var(cli.AtLeast(&f.parallel, 1), "parallel", "`N` requests to one host at once")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	f.call.Add(flags, "for a Source on this machine or network: loopback and private addresses may be called")
	f.log.Add(flags)
}

// addCopy adds those about a copy, which each entry of --sources may have.
func (f *copyFlags) addCopy(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "dir", "", "the `FOLDER` of the copy")
	flags.StringVar(&f.stateDir, "state-dir", "", "the `FOLDER` of the state of the copy (default: .rssub in the copy)")
	flags.StringArrayVar(&f.roots, "map", nil, "`URL=FOLDER`: store resources below URL in FOLDER of the copy (. is the copy itself); repeatable (default: a folder for each host)")
	flags.StringArrayVar(&f.hiddenAllow, "hidden-allow", nil, "`PATTERN` of names to keep although programs react to them, such as .well-known or web.config; repeatable (default: all such names are changed to safe ones)")
	flags.StringArrayVar(&f.hosts, "allow-host", nil, "another `HOST` from which resources and documents may be fetched, besides the Source's; repeatable")
	flags.StringArrayVar(&f.mirrors, "prefer-mirror", nil, "beginning of addresses, as a `PREFIX`: fetch a resource from its mirror there, and from its own address if that fails; repeatable, the best first")
	flags.StringArrayVar(&f.types, "prefer-type", nil, "media `TYPE` such as application/pdf or image/*: if a resource has an alternate of it, copy that instead; repeatable, the best first")
	addTokens(flags, &f.tokens)
	f.maxFile, f.maxTotal, f.minFree = 16<<30, 1<<40, 256<<20
	flags.StringVar(&f.maxDelete, "max-delete", "", "delete at most `N` files within an hour, or a fraction of the copy such as 10%; more deletions are delayed and reported (default: a tenth of the copy, but at least ten)")
	flags.Var(cli.Size(&f.maxFile, 1), "max-file", "largest resource, or package of a dump, as a `SIZE` such as 16GiB; a length that the Source gives does not raise it")
	addMaxEntries(flags, &f.maxEntries)
	flags.Var(cli.Size(&f.maxTotal, 0), "max-total", "largest copy, as a `SIZE`, with unfinished downloads; resources that do not fit are reported and tried again by the next run; 0: no limit")
	flags.Var(cli.Size(&f.minFree, 0), "min-free-disk", "free space, as a `SIZE`, that has to stay on the disk of the copy; with less, nothing is fetched, and deletions continue; 0: no limit")
}

// addBaseline adds the flags about the first copy.
func (f *copyFlags) addBaseline(flags *pflag.FlagSet) {
	flags.StringVar(&f.baseline, "baseline", "auto", "where the first copy comes `FROM`: list, dump or auto")
	f.patches.add(flags)
	flags.StringVar(&f.changes, "changes", "auto", "where changed resources come `FROM` when Change Lists are read: list (one by one), dump (packages of the Change Dump) or auto (what costs less)")
}

// addSubscription adds the flags about receiving changes.
func (f *copyFlags) addSubscription(flags *pflag.FlagSet) {
	f.lease, f.checkEvery = cli.Span(10*24*time.Hour), cli.Span(time.Hour)
	f.way.add(flags)
	flags.StringVar(&f.hub, "hub", "", "`URL` of the hub to subscribe at, or to read the stream of (default: the one that the topic names)")
	flags.BoolVar(&f.insecure, "insecure-secret", false, "send the secret to a hub over plain http, too")
	addMinSignature(flags, &f.minSignature)
	flags.Var(cli.Positive(&f.lease), "lease", "`TIME` to ask for")
	flags.Var(&f.checkEvery, "check-every", "check the Change List for changes that were not pushed every `TIME`; off: never")
	addHoldFor(flags, &f.hold)
	flags.Var(cli.Positive(&f.auditEvery), "audit-every", "compare the copy with the Source every `TIME`, byte by byte, and repair it as rssub audit --repair does (default: never)")
}

// addActions adds those about what follows from a change.
func (f *copyFlags) addActions(flags *pflag.FlagSet) {
	f.changeLimit = cli.Span(10 * time.Minute)
	flags.StringVar(&f.onChange, "on-change", "", "run `CMD` by the shell for each file that was copied or deleted, when it is in place")
	flags.Var(cli.Positive(&f.changeLimit), "on-change-limit", "`TIME` after which a run of --on-change is ended, and tried again")
}

// onChangeOf returns what runs --on-change for a copy; nil: nothing is to be run.
func (f *copyFlags) onChangeOf(cmd *cobra.Command, source, dir string, log *slog.Logger) func(context.Context, destination.Event) error {
	if f.onChange == "" {
		return nil
	}
	if whole, err := filepath.Abs(dir); err == nil { // the command may be in another folder
		dir = whole
	}
	x := command{line: f.onChange, out: cli.Raw(cmd.ErrOrStderr()), errOut: cli.Raw(cmd.ErrOrStderr()), limit: span(f.changeLimit), source: source}
	return x.hand(log, dir)
}

// addCallback adds the flag that says where hubs find the Destination.
func (f *copyFlags) addCallback(flags *pflag.FlagSet) {
	flags.StringVar(&f.callback, "callback-url", "", "the `URL` at which the hub reaches --listen (with --dev: the address of --listen). With --via stream or poll, the hub asks there whether an earlier subscription is to end. Without it rssub listens nowhere")
}

// addHoldFor adds the flag about notifications that came early.
func addHoldFor(flags *pflag.FlagSet, hold *cli.Span) {
	*hold = cli.Span(10 * time.Second)
	flags.Var(cli.Positive(hold), "hold-for", "how long an early notification waits for those before it, as a `TIME`; then these are read from the Change List")
}

// addMaxEntries adds the flag that accepts lists that are larger than the protocol allows.
func addMaxEntries(flags *pflag.FlagSet, n *int) {
	*n = resourcesync.DefaultLimits.Entries
	flags.Var(cli.AtLeast(n, 1), "max-entries", "most entries that a list of the Source may have, as a number `N`. The protocol allows 50000; the log warns of each list with more")
}

// addMinSignature adds the flag that accepts the deliveries of old hubs.
func addMinSignature(flags *pflag.FlagSet, method *string) {
	flags.StringVar(method, "min-signature", string(websub.SHA256), "weakest signature `METHOD` to accept: sha1, sha256, sha384 or sha512. Use sha1 only for hubs that know no other")
}

// minSignature reads it.
func minSignature(method string) (websub.SignatureMethod, error) {
	if method == "" {
		return "", nil // a command without the flag
	}
	m, err := websub.ParseSignatureMethod(method)
	if err != nil {
		return "", cli.Fail(cli.ExitUsage, "--min-signature: %w", err)
	}
	return m, nil
}

// options reads the flags.
func (f *copyFlags) options(cmd *cobra.Command, source string) (destination.Options, error) {
	o, err := f.copyOptions(source)
	if err != nil {
		return o, err
	}
	if o.Allow, err = f.call.Ranges(); err != nil {
		return o, err
	}
	o.Log, err = f.log.Logger(cmd.ErrOrStderr())
	return o, err
}

// copyOptions reads the flags that are about the copy.
func (f *copyFlags) copyOptions(source string) (destination.Options, error) {
	o := destination.Options{
		Source: source, Dir: f.dir, StateDir: f.stateDir, Hosts: f.hosts, PreferMirrors: f.mirrors, PreferTypes: f.types, Parallel: f.parallel, MaxFile: f.maxFile, MaxEntries: f.maxEntries, DryRun: f.dryRun,
		MaxTotal: cli.OrNone(f.maxTotal), MinFree: cli.OrNone(f.minFree),
		Hub: f.hub, Callback: f.callback, InsecureSecret: f.insecure, CheckEvery: f.checkEvery.OrNever(), Lease: span(f.lease), HoldFor: span(f.hold), PollEvery: span(f.way.poll), InsecureStream: f.way.insecure, AuditEvery: span(f.auditEvery),
		Tokens: map[string]string{}, HiddenAllow: f.hiddenAllow,
	}
	f.selection.set(&o)
	if err := f.patches.set(&o); err != nil {
		return o, err
	}
	if f.dir == "" {
		return o, cli.Fail(cli.ExitUsage, "--dir is missing: the folder of the copy")
	}
	if source == "" {
		return o, cli.Fail(cli.ExitUsage, "the Source is missing: name its URL, such as https://source.example.org/, as the argument or with --source")
	}
	err := errors.Join(cli.CheckAddress("SOURCE", source), checkURLs(f.callback, named{"--hub", f.hub}))
	if err != nil {
		return o, err
	}
	if o.Via, err = f.way.way(); err != nil {
		return o, err
	}
	if o.MinSignature, err = minSignature(f.minSignature); err != nil {
		return o, err
	}
	for _, h := range f.hosts {
		if !egress.IsHost(h) {
			return o, cli.Fail(cli.ExitUsage, "--allow-host %q must be a HOST or HOST:PORT", h)
		}
	}
	switch f.baseline {
	case "", "auto":
	case string(destination.BaselineList), string(destination.BaselineDump):
		o.Baseline = destination.Baseline(f.baseline)
	default:
		return o, cli.Fail(cli.ExitUsage, "--baseline %q must be auto, list or dump", f.baseline)
	}
	switch f.changes {
	case "", "auto":
	case string(destination.ChangesList), string(destination.ChangesDump):
		o.Changes = destination.Changes(f.changes)
	default:
		return o, cli.Fail(cli.ExitUsage, "--changes %q must be auto, list or dump", f.changes)
	}
	for _, m := range f.roots {
		u, dir, ok := strings.Cut(m, "=")
		if i := strings.LastIndex(m, "="); ok {
			u, dir = m[:i], m[i+1:]
		}
		if !ok || dir == "" {
			return o, cli.Fail(cli.ExitUsage, "--map %q must be of the form URL=FOLDER", m)
		}
		o.Roots = append(o.Roots, destination.Root{URL: u, Dir: filepath.ToSlash(filepath.Clean(dir))})
	}
	tokens, err := readTokens(f.tokens)
	if err != nil {
		return o, err
	}
	o.Token = tokens.now
	for host := range tokens {
		o.Tokens[host] = tokens.now(host)
	}
	if f.maxDelete != "" {
		if o.MaxDelete, err = destination.ParseShare(f.maxDelete); err != nil {
			return o, cli.Fail(cli.ExitUsage, "--max-delete: %w", err)
		}
	}
	return o, nil
}

// open opens the copy that the flags describe.
func (f *copyFlags) open(o destination.Options) (*destination.Copy, error) {
	c, err := destination.Open(o)
	if err != nil {
		if wrong := (*destination.OptionsError)(nil); errors.As(err, &wrong) {
			return nil, &cli.Error{Code: cli.ExitUsage, Err: wrong}
		}
		if errors.Is(err, destination.ErrNoCopy) {
			return nil, cli.Fail(cli.ExitNotFound, "%w; name the folder of the copy with --dir, and that of its state with --state-dir", err)
		}
		return nil, &cli.Error{Code: cli.ExitFailure, Err: err}
	}
	return c, nil
}

// named is a URL and the flag that it came with; empty: it did not.
type named struct{ flag, url string }

// checkURLs returns an error for ExitUsage if one of the URLs is not valid, or if the callback's
// URL cannot be used.
func checkURLs(callback string, others ...named) error {
	for _, u := range append(others, named{"--callback-url", callback}) {
		if err := cli.CheckURL(u.flag, u.url); u.url != "" && err != nil {
			return err
		}
	}
	if strings.ContainsRune(callback, '?') {
		return cli.Fail(cli.ExitUsage, "--callback-url has a query: give the URL without it. Each subscription uses a path below the URL")
	}
	return nil
}

func span(s cli.Span) time.Duration { return time.Duration(s) }

// untilSignal is a context that ends with the first SIGINT or SIGTERM; a second one
// ends the process.
func untilSignal(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, cancel := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel)
	return ctx, cancel
}

// explained gives an error of a Source its exit code.
func explained(err error, log *slog.Logger) error {
	var status *subscriber.StatusError
	var host *destination.HostError
	var wrong *destination.OptionsError
	code := cli.ExitFailure
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		log.Info("interrupted; the next run continues from here", "event", "interrupted")
		return &cli.Error{Code: cli.ExitPartial}
	case errors.Is(err, destination.ErrBehind):
		code = cli.ExitPartial
	case errors.Is(err, destination.ErrOtherState), errors.As(err, &wrong):
		code = cli.ExitUsage
	case errors.Is(err, destination.ErrNoState):
		code = cli.ExitNotFound
	case errors.As(err, &host):
		code = cli.ExitRefused
	case errors.As(err, &status) && (exitOf(status.Status) != cli.ExitNotFound || !subscriber.Away(err)): // many hosts have nothing at their top
		code = exitOf(status.Status)
	case egress.Classify(err) == egress.FailureRefused:
		code = cli.ExitRefused
	case egress.Classify(err) == egress.FailureConnect, egress.Classify(err) == egress.FailureTimeout, subscriber.Away(err):
		code = cli.ExitUnreachable
	}
	return &cli.Error{Code: code, Err: err}
}

// exitOf is the exit code for an answer of the Source.
func exitOf(status int) int {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return cli.ExitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return cli.ExitRefused
	default:
		return cli.ExitUnreachable
	}
}
