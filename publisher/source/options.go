package source

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// Options configure a Source. PublicURL, StateDir and Sets are required.
type Options struct {
	// PublicURL is the URL of Handler for others, such as https://example.org/. All
	// documents have URLs below it.
	PublicURL string
	// StateDir is a folder for the index, the documents and the outbox. Only one Source at
	// a time can use it. It may lie in the folder of a set, which leaves it out.
	StateDir string
	// Sets are the folders. If there is only one, it may have no name.
	Sets []Set
	// Hubs are notified of every change. Without any, there are only documents.
	Hubs []publisher.Hub
	// Every is how long a change waits at most for others before it is published; zero:
	// publisher.DefaultEvery.
	Every time.Duration
	// MaxStored bounds the outbox of each topic, in bytes; zero: publisher.DefaultMaxStored. While
	// it is full, changes wait in the log of the set, and Announce refuses more of them.
	MaxStored int64
	// Schedule says when documents are written and how long they are kept.
	Schedule Schedule
	// Client makes the requests to hubs, and those for catalogues and for the bytes of resources that
	// catalogues name. Nil: one with sensible limits for hubs, and no other requests are made.
	Client publisher.Doer
	// Hooks are called when something happens.
	Hooks Hooks
	// Log receives what happens. Nil: nothing is logged.
	Log *slog.Logger
}

// Set is a folder or a catalogue whose resources are published together, with their own Capability List,
// documents and topic (SRC-01, SRC-15).
type Set struct {
	// Name is the first segment of all paths of the set: lower case letters, digits and
	// hyphens. A set without a name is the only one, and its paths begin at the top.
	Name string
	// Folder says what is scanned.
	Folder FolderOptions
	// Catalogue says from where a catalogue is read, instead of a scan of the folder. Folder.Dir is then
	// where the paths of the catalogue begin, and may be empty. Of Folder only Exclude, Rescan, Unwatched,
	// Settle, MaxDeleted, Workers and Log count besides.
	Catalogue CatalogueOptions
	// ResourceURL is the URL at which another server serves the folder: a resource is listed
	// at this URL and its path, and Handler does not serve it. Empty: the resources are
	// listed below data/ of the set, where Handler serves them. If it is not the one of the last
	// run, every resource is published as deleted at its old URL and created at the new one.
	ResourceURL string
	// Rules add links and attributes to the entries of the resources. Nil: none. What they change
	// in documents of the last run is published as updated.
	Rules *Rules
	// Announced: there is neither a folder nor a catalogue, and changes come through Source.Announce. Such a set has a
	// Change List, but neither a Resource List nor dumps: nobody knows its resources that were
	// never announced.
	Announced bool
	// Hubs are notified of the changes of this set, instead of Options.Hubs. Nil: these.
	Hubs []publisher.Hub
}

// Schedule says when documents are written and how long they are kept. A zero field has its
// default, which is at the end of each comment, and a negative duration means never.
type Schedule struct {
	// ChangeList is the shortest time between two writes of the Change List. Each thousand
	// changes in it add as much again. The first change after a while is in it at once. 1 s.
	ChangeList time.Duration
	// RotateAt is the number of changes after which a Change List is closed, 50,000 at most.
	// Rotate is the age after which it is closed. 50,000 and 30 days.
	Rotate   time.Duration
	RotateAt int
	// ResourceList is the shortest time between two writes of the Resource List after changes.
	// A large one is written less often, so that writing takes at most a tenth of the time.
	// 1 min.
	ResourceList time.Duration
	// Dump is how often a Resource Dump is written if there were changes. If it is negative,
	// there are no Change Dumps either, which are otherwise written when a Change List is
	// closed. 24 h.
	Dump time.Duration
	// Archive is how often a Resource List is put into the archive if there were changes. If
	// it is negative, there are no archives. 24 h.
	Archive time.Duration
	// KeepChanges is how long closed Change Lists and their dumps are listed beside the open
	// one. KeepArchive is how long they and Resource Lists stay in the archives. 7 and 30
	// days.
	KeepChanges, KeepArchive time.Duration
	// KeepDumps is how many Resource Dumps are kept, including the current one. Each needs as
	// much space as the folder. 2.
	KeepDumps int
	// PackageBytes is the size of a package of a dump, before compression. A larger resource
	// gets a package of its own. 1 GiB.
	PackageBytes int64
	// Linger is how long the parts of a replaced list are served, for clients that are still
	// reading it. 10 min.
	Linger time.Duration
}

// Hooks are called when something has happened. They must not wait long. Any of them may be nil,
// and several goroutines may call one.
type Hooks struct {
	// Recorded gets the changes of a set in their order, as soon as they are on disk: each once, or not at all if the
	// process is killed in that moment. What a document can have of them is published, in the Change Lists and at the
	// hubs if there are any. The hook must not record changes itself.
	Recorded func(set string, changes []Change)
	// Posted gets each POST of a notification to a hub, and its answer.
	Posted func(set string, p publisher.Posted)
	// Built gets the URLs of documents that have just appeared or changed.
	Built func(set string, urls []string)
}

// withDefaults checks o and sets the fields that are zero.
func (o Options) withDefaults() (Options, error) {
	if err := o.checkURL(); err != nil {
		return o, err
	}
	if o.StateDir == "" {
		return o, errors.New("the Source needs a folder for its state (StateDir)")
	}
	if len(o.Sets) == 0 {
		return o, errors.New("the Source has no folder: give it at least one set")
	}
	seen := make(map[string]bool)
	o.Sets = slices.Clone(o.Sets)
	for i := range o.Sets {
		s := &o.Sets[i]
		switch {
		case s.Name == "" && len(o.Sets) > 1:
			return o, errors.New("of several sets, each needs a name")
		case s.Name != "" && (!setName.MatchString(s.Name) || reserved[s.Name]):
			return o, fmt.Errorf("%q cannot be the name of a set: use lower case letters, digits and hyphens, and not data, changes, framework, archive or dumps", s.Name)
		case seen[s.Name]:
			return o, fmt.Errorf("two sets are called %q", s.Name)
		}
		seen[s.Name] = true
		if err := s.checkURL(o.PublicURL); err != nil {
			return o, err
		}
	}
	o.Schedule, o.Client = o.Schedule.withDefaults(), web.WithoutRedirects(o.Client)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func (o *Options) checkURL() error {
	u, err := url.Parse(o.PublicURL)
	if strings.Contains(o.PublicURL, "@") && (err != nil || u.User != nil) {
		return errPassword("the public URL")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q cannot be the public URL: give the address where others reach this Source, such as https://example.org/", o.PublicURL)
	}
	if !strings.HasSuffix(o.PublicURL, "/") {
		o.PublicURL += "/"
	}
	return nil
}

// errPassword is the error for a URL with a user name or password in it.
func errPassword(what string) error {
	return fmt.Errorf("%s has a user name or password, which everybody would see: remove everything up to the @, as in https://example.org/", what)
}

// checkURL sets ResourceURL as the set uses it. One that leads to data/ is the default.
func (s *Set) checkURL(public string) (err error) {
	if s.ResourceURL == "" {
		return nil
	}
	if s.ResourceURL, err = checkPrefix(s.ResourceURL); err != nil {
		return err
	}
	data := public + dataPath
	if s.Name != "" {
		data = public + s.Name + "/" + dataPath
	}
	if s.ResourceURL == data {
		s.ResourceURL = ""
	}
	return nil
}

var (
	setName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
	// reserved are the first segments of paths within a set.
	reserved = map[string]bool{"data": true, "changes": true, "framework": true, "archive": true, "dumps": true}
)

const (
	day = 24 * time.Hour
	// mostKept bounds each list of closed or archived documents. With the open one, that is
	// as many as a document can list.
	mostKept = 49_999
)

func (s Schedule) withDefaults() Schedule {
	s.ChangeList = cmp.Or(s.ChangeList, time.Second)
	s.Rotate = cmp.Or(s.Rotate, 30*day)
	s.RotateAt = min(max(cmp.Or(s.RotateAt, 50_000), 1), resourcesync.DefaultLimits.Entries)
	s.ResourceList = cmp.Or(s.ResourceList, time.Minute)
	s.Dump = cmp.Or(s.Dump, day)
	s.Archive = cmp.Or(s.Archive, day)
	s.KeepChanges = cmp.Or(s.KeepChanges, 7*day)
	s.KeepArchive = max(cmp.Or(s.KeepArchive, 30*day), s.KeepChanges)
	s.KeepDumps = max(cmp.Or(s.KeepDumps, 2), 1)
	s.PackageBytes = max(cmp.Or(s.PackageBytes, 1<<30), 1)
	s.Linger = max(cmp.Or(s.Linger, 10*time.Minute), 0)
	return s
}
