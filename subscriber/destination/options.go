package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/websub"
)

// Options configure a Copy. Source and Dir are required. A zero elsewhere stands for the
// default that is named.
type Options struct {
	// Source is any address of the Source: its host, Source Description, a
	// Capability List, a list. If it is a list, a dump, or an archive of lists or dumps, Sync copies
	// what that describes, and the others begin with it to find the Source.
	Source string
	// Dir is the folder of the copy. StateDir is the folder of its state: .rssub in Dir. Both
	// belong to one Copy at a time.
	Dir, StateDir string
	// Roots say which folder of Dir the resources below a URL go to. The longest URL that
	// fits counts. If none fits, the folder is named after the host.
	Roots []Root
	// Select says which resources the copy has. Nil: those that it said the last time, at first all.
	// If it is another one than the last time, a new baseline brings what it adds. What it leaves
	// out stays as it is, unless Reselect deletes it, as far as MaxDelete allows. Then resources
	// that leave the selection later are deleted, too.
	Select   *Selection
	Reselect bool
	// AsOf has Sync copy the state that the Source had at this instant, from its archives. Zero:
	// the current state or, if Source is a list, dump or archive, the state that this describes.
	AsOf time.Time
	// HiddenAllow are patterns (path.Match) of names that are written as they are, although
	// programs act upon them: names that begin with a dot, such as .well-known, and those that
	// guard.go lists. Other such names are changed to safe ones. See docs/destination.md.
	HiddenAllow []string

	// Hosts are the hosts, as host or host:port, that may be called besides that of the
	// Source, for resources, documents and redirects.
	Hosts []string
	// Tokens are bearer tokens by host or host:port. One is sent to its host only.
	Tokens map[string]string
	// Token, if not nil, is called before each request. It returns the current token for a
	// key of Tokens. Several goroutines may call it.
	Token func(host string) string
	// PreferMirrors are beginnings of addresses, the best first: a mirror of a resource there
	// (rel="duplicate") is tried before the resource's own address. PreferTypes are media types
	// such as application/pdf or image/*, the best first: an alternate of a resource that has one
	// is copied instead of the resource, at the path of the resource. Both count for what is
	// fetched from then on; an audit expects the alternates, too.
	PreferMirrors, PreferTypes []string
	// Parallel is how many requests go to one host at once: 8.
	Parallel int
	// MaxDelete is how many files may be deleted within an hour: a tenth of the copy, and at
	// least ten. By default an empty list deletes nothing. Deletions beyond that are held
	// back.
	MaxDelete Share
	// MaxFile is the largest resource, or package of a dump, in bytes, whatever length the
	// Source states: 16 GiB.
	MaxFile int64
	// MaxEntries is how many entries a list of the Source, or the manifest of a package, may
	// have: the 50,000 of the protocol. Log names each accepted list that has more, once. A
	// list may have 1 KiB for each entry.
	MaxEntries int
	// MaxTotal is how many bytes the files of the copy and those being fetched may have
	// together: 1 TiB; negative: any number. A file counts once while it is replaced. A
	// package of a dump does not count.
	MaxTotal int64
	// MinFree is how many bytes stay free on the disk of Dir: 256 MiB; negative: none. A
	// resource that does not fit into MaxTotal or MinFree fails, and is tried again like
	// other failures. Everything else goes on, including deletions.
	MinFree int64
	// Baseline is where the first copy comes from: BaselineAuto, BaselineList or
	// BaselineDump.
	Baseline Baseline
	// Changes is where the bytes of changed resources come from when Change Lists are pulled:
	// ChangesAuto, ChangesList or ChangesDump.
	Changes Changes
	// Patches apply patches that changes name, by the media types of these; nil for a type: use none
	// of it. Unified diffs, text/x-diff and text/x-patch, need no Patcher.
	Patches map[string]Patcher
	// Beside opens a copy that another process works on, by Follow or Sync, for Audit without
	// repair. It uses a snapshot of the state, which the other process makes, and writes
	// nothing to the copy. If no other process has the copy, and nothing can be written where its
	// state is, it uses a temporary copy of the state. Else it has no effect.
	Beside bool
	// Existing refuses a folder without a copy (ErrNoCopy).
	Existing bool
	// DryRun calls the Source and reports what would be done, and changes nothing.
	DryRun bool

	// Callback is the public URL of Handler, for Follow. Via is how the changes of the sets come
	// that have a hub: subscriber.ViaAuto. Other sets are polled. Hub, Lease, InsecureSecret,
	// MinSignature and InsecureStream are those of subscriber.Options.
	Callback, Hub                  string
	Via                            subscriber.Via
	Lease                          time.Duration
	InsecureSecret, InsecureStream bool
	MinSignature                   websub.SignatureMethod
	// CheckEvery and HoldFor are those of subscriber.Options.
	CheckEvery, HoldFor time.Duration
	// PollEvery is how often Follow asks the Source for changes of a set that no hub pushes: 5
	// minutes.
	PollEvery time.Duration

	// AuditEvery is how often Follow audits the copy, and repairs it as Audit does: never, if it is
	// 0. Baselines and polls wait until an audit has ended, pushed changes do not. Audited is called with each
	// result. Nil: not called.
	AuditEvery time.Duration
	Audited    func(AuditReport, error)

	// Allow lists ranges of addresses that may be called besides public ones. It has no
	// effect with a Client.
	Allow []netip.Prefix
	// Client calls all hosts. Nil: a guarded client.
	Client subscriber.Doer
	// Log receives the log lines. Nil: none are written.
	Log *slog.Logger
	// Event is called for each file that was copied or deleted, or that failed. Progress is
	// called now and then with how far a baseline or audit got. They must not block, and
	// several goroutines call them. Nil: not called.
	Event    func(Event)
	Progress func(Progress)

	// Hand, if not nil, is called for each file that was copied or deleted while Follow runs, when
	// it is in place: in order, one at a time, and again after an error or a crash. Event.Change
	// says what happened to the file: it was created, updated or deleted. Hand may take its time; but
	// while 10,000 events wait for it, nothing more is copied.
	Hand func(context.Context, Event) error

	end func() // closes the idle connections of our own Client; nil: the Client is the caller's
	// looks are the waits before the findings of an audit of a followed copy are checked again.
	looks []time.Duration
	// What copies of a Fleet share. Party bounds requests; nil: there are no others. Turn waits
	// until a baseline may be made, and end gives the turn on.
	party *party
	turn  func(ctx context.Context, done func() int64) (end func(), err error)
}

// Root is the folder for the resources below a URL.
type Root struct {
	URL string // a prefix of addresses, which ends with a slash
	Dir string // a folder of the copy, with slashes; "." is the copy itself
}

// Baseline is where the first copy comes from.
type Baseline string

// The kinds of Baseline.
const (
	BaselineAuto Baseline = ""     // a dump, if the copy has no files yet, or if it costs less; else the list
	BaselineList Baseline = "list" // the Resource List
	BaselineDump Baseline = "dump" // the Resource Dump
)

// Results of a resource.
const (
	Copied    = "copied"  // it is in the copy as the Source has it now
	Deleted   = "deleted" // it is not in the copy any more
	Failed    = "failed"  // it could not be fetched or deleted
	HeldBack  = "held"    // Options.MaxDelete held its deletion back
	Unchanged = "unchanged"
)

// Event is something that happened to one resource.
type Event struct {
	What string // one of the above
	URL  string
	Path string // in the copy, with slashes
	// Bytes is the length of the file, and Hash a list of algorithm:digest.
	Bytes int64
	Hash  string
	// Change is the change type that the Source stated, empty in a baseline. ChangedAt is the
	// time of the change.
	Change    resourcesync.ChangeType
	ChangedAt time.Time
	// NotificationID is the Webhook-Id of the notification that reported it; empty: it was
	// pulled.
	NotificationID string
	Took           time.Duration
	// Instead is the address of the mirror or alternate that the file came from; empty: it came
	// from the resource's own address, or from a package.
	Instead string
	Patched bool // a patch made the file of the one before
	Err     error
}

// Progress is how far a baseline, a run over changes or an audit got.
type Progress struct {
	What         string // "baseline", "dump", "changes" or "audit"
	Done, Total  int    // resources; Total 0: not known yet
	Failed       int
	Bytes        int64 // of Done
	Began        time.Time
	Finished     bool
	CurrentlyFor string // the Source
}

const (
	fetchTries   = 3
	tryFirst     = 500 * time.Millisecond
	askedTries   = 8 // if the host asked to come again later
	tryMax       = 10 * time.Second
	hostPauseMax = 5 * time.Minute  // the longest pause of a host for which a request waits; with a longer one it fails
	hostRest     = time.Minute      // how long a host that does not answer is not called
	stallTimeout = 30 * time.Second // for the header, and later without a byte
	slowest      = 1 << 10          // bytes a second
	mirrorsMax   = 8                // tried for one resource, besides its own address and the preferred one
	mirrorsKept  = 64               // of one resource, from which one may be preferred
	resumeFrom   = 1 << 20          // a later try continues a resource with at least so many bytes
	maxProblems  = 100              // named in a Report
	deleteWindow = time.Hour
)

// OptionsError says which option is wrong. Nothing was started.
type OptionsError struct{ error }

// Unwrap returns the error without its type.
func (e *OptionsError) Unwrap() error { return e.error }

// setDefaults checks the options, and replaces zeros by the defaults.
func (o *Options) setDefaults() error {
	if err := o.check(); err != nil {
		return err
	}
	if o.Via == subscriber.ViaCallback && o.Callback == "" {
		return errors.New("Options.Callback is missing: name the public URL of Handler, or use another Options.Via")
	}
	o.StateDir = cmp.Or(o.StateDir, filepath.Join(o.Dir, stateName))
	o.Parallel = cmp.Or(max(o.Parallel, 0), 8)
	o.MaxFile = cmp.Or(max(o.MaxFile, 0), 16<<30)
	o.MaxTotal = cmp.Or(o.MaxTotal, 1<<40)
	o.MinFree = cmp.Or(o.MinFree, disk.DefaultMinFree)
	o.PollEvery = cmp.Or(max(o.PollEvery, 0), 5*time.Minute)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.looks == nil {
		o.looks = append(slices.Clone(lookAgain), lookOnceMore)
	}
	if o.Audited == nil {
		o.Audited = func(AuditReport, error) {}
	}
	if o.turn == nil {
		o.turn = func(context.Context, func() int64) (func(), error) { return func() {}, nil }
	}
	if o.Client == nil {
		client, err := egress.New(egress.Options{Allow: o.Allow, Unless: egress.AllowedBy("Options.Allow"), UserAgent: "rssub", PerHost: o.Parallel})
		if err != nil {
			return err
		}
		o.Client, o.end = client, client.CloseIdleConnections
	}
	o.Client = web.WithoutRedirects(o.Client)
	return nil
}

// Check reports what is wrong with the options, as Open does. It opens nothing.
func (o Options) Check() error {
	if err := o.check(); err != nil {
		return &OptionsError{err}
	}
	return nil
}

func (o *Options) check() error {
	u, err := url.Parse(o.Source)
	switch {
	case err == nil && u.User != nil:
		return errors.New("Options.Source has a user name or a password before the host, which are never sent: write the URL without what ends in @, and give a bearer token in Options.Tokens")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is not the address of a Source; give an http or https URL", o.Source)
	case o.Dir == "":
		return errors.New("Options.Dir is missing: name the folder of the copy")
	case o.AsOf.After(time.Now()):
		return fmt.Errorf("Options.AsOf %s is in the future", resourcesync.FormatDatetime(o.AsOf))
	case o.MaxEntries < 0:
		return errors.New("Options.MaxEntries is negative; leave it out for its default")
	case !slices.Contains([]Baseline{BaselineAuto, BaselineList, BaselineDump}, o.Baseline):
		return fmt.Errorf("%q is not a kind of baseline; use %q or %q", o.Baseline, BaselineList, BaselineDump)
	case !slices.Contains([]Changes{ChangesAuto, ChangesList, ChangesDump}, o.Changes):
		return fmt.Errorf("%q is no place where changes come from; use %q or %q", o.Changes, ChangesList, ChangesDump)
	case !slices.Contains([]subscriber.Via{subscriber.ViaAuto, subscriber.ViaCallback, subscriber.ViaStream, subscriber.ViaPoll}, o.Via):
		return fmt.Errorf("%q is no way in which changes come; use %q, %q or %q", o.Via, subscriber.ViaCallback, subscriber.ViaStream, subscriber.ViaPoll)
	}
	if err := websub.CheckURL("Options.Callback", o.Callback); o.Callback != "" && err != nil {
		return err
	}
	if _, err := websub.ParseSignatureMethod(string(o.MinSignature)); o.MinSignature != "" && err != nil {
		return fmt.Errorf("Options.MinSignature: %w", err)
	}
	if err := newPreference(o).check(); err != nil {
		return err
	}
	for option, hosts := range map[string][]string{"Options.Hosts": o.Hosts, "Options.Tokens": slices.Collect(maps.Keys(o.Tokens))} {
		for _, h := range hosts {
			if !egress.IsHost(h) {
				return fmt.Errorf("%s: %q is not a host; write it like source.example.org or source.example.org:8443", option, h)
			}
		}
	}
	for _, p := range o.HiddenAllow {
		if _, err := path.Match(p, ""); err != nil || p == "" || strings.Contains(p, "/") {
			return fmt.Errorf("Options.HiddenAllow: %q is not a pattern of a name; write it like .well-known or .*", p)
		}
	}
	if o.Select != nil {
		if _, err := newSelection(*o.Select); err != nil {
			return err
		}
	}
	o.Roots = slices.Clone(o.Roots)
	for i := range o.Roots {
		o.Roots[i].URL = resourcesync.EncodeURI(o.Roots[i].URL) // like the addresses that it is compared with
		if err := o.Roots[i].check(); err != nil {
			return err
		}
	}
	if o.StateDir == "" {
		return nil
	}
	return o.checkStateDir()
}

// checkStateDir refuses a folder that resources could be written to.
func (o *Options) checkStateDir() error {
	dir, err := realPath(o.Dir)
	state, other := realPath(o.StateDir)
	if err := errors.Join(err, other); err != nil {
		return err
	}
	within, err := filepath.Rel(dir, state)
	if err != nil || !filepath.IsLocal(within) {
		return nil //nolint:nilerr // it has nothing to do with the copy
	}
	if top, _, _ := strings.Cut(filepath.ToSlash(within), "/"); top != stateName {
		return fmt.Errorf("the state folder %s is in the copy, where resources go; name one outside of it, or below %s",
			o.StateDir, filepath.Join(o.Dir, stateName))
	}
	return nil
}

// realPath returns the absolute path of a folder without links. Folders that do not exist
// yet keep their names.
func realPath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if above := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && above != dir {
		real, err = realPath(above)
		return filepath.Join(real, filepath.Base(dir)), err
	}
	return real, err
}

func (r Root) check() error {
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.HasSuffix(u.EscapedPath(), "/") || u.RawQuery != "":
		return fmt.Errorf("Options.Roots: %q cannot be the beginning of addresses; write an http or https URL that ends with a slash, such as https://source.example.org/papers/", r.URL)
	case web.HasDotSegment(u):
		return fmt.Errorf("Options.Roots: %q has a dot segment (/./ or /../); write the URL without", r.URL)
	case r.Dir != "." && !filepath.IsLocal(filepath.FromSlash(r.Dir)):
		return fmt.Errorf("Options.Roots: the folder %q for %s is outside of the copy; name one in it, such as papers, or . for the copy itself", r.Dir, r.URL)
	case path.Clean(r.Dir) != r.Dir:
		return fmt.Errorf("Options.Roots: write the folder %q for %s in its shortest form: %q", r.Dir, r.URL, path.Clean(r.Dir))
	}
	if top, _, _ := strings.Cut(r.Dir, "/"); isOwn(seen(top)) {
		return fmt.Errorf("Options.Roots: the folder %q for %s is that of the copy's state; name another one", r.Dir, r.URL)
	}
	return nil
}
