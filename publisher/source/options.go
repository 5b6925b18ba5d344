package source

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// Options configure a Source. PublicURL, StateDir and Sets are required.
type Options struct {
	// PublicURL is where Handler is reached from outside, such as
	// https://example.org/. All documents have URLs below it.
	PublicURL string
	// StateDir is a folder for the index, the documents and the outbox. It is for
	// one Source at a time, and not within any of the sets.
	StateDir string
	// Sets are the folders. A single one may have no name.
	Sets []Set
	// Hubs are told of every change. Without any there are documents alone.
	Hubs []publisher.Hub
	// Every is how long a change waits at most for others before it is published;
	// zero: publisher.DefaultEvery.
	Every time.Duration
	// Schedule says when documents are written and how long they are kept.
	Schedule Schedule
	// Client makes the requests to hubs. Nil: one with sensible limits.
	Client publisher.Doer
	// Hooks are told what happens.
	Hooks Hooks
	// Log is told what happens, too. Nil: nobody is.
	Log *slog.Logger
}

// Set is a folder whose resources are published together: with a Capability List,
// documents and a topic of their own (SRC-01, SRC-15).
type Set struct {
	// Name is the first segment of the path of all that is published of the set:
	// lower case letters, digits and hyphens. A set without a name has it at the
	// top, and is the only one.
	Name string
	// Folder is what is scanned.
	Folder FolderOptions
}

// Schedule says when documents are written and how long they are kept. What is
// zero stands for the default, and a negative duration for never.
type Schedule struct {
	// ChangeList is how often the Change List is written at most, and once more as
	// long for each thousand changes in it. A first change is in it at once. 1 s.
	ChangeList time.Duration
	// RotateAt is how many changes a Change List has at most before it is closed, and
	// Rotate how long it is added to. 50,000, which is the most there may be, 30 days.
	Rotate   time.Duration
	RotateAt int
	// ResourceList is how often the Resource List is written at most, where there
	// are changes. A large one is written less often, so that this takes no more
	// than a tenth of the time. 1 min.
	ResourceList time.Duration
	// Dump is how often a Resource Dump is written where there are changes. Never:
	// there are no Change Dumps either, which are written when a Change List is
	// closed. 24 h.
	Dump time.Duration
	// Archive is how often a Resource List is put in the archive where there are
	// changes. Never: there are no archives. 24 h.
	Archive time.Duration
	// KeepChanges is how long closed Change Lists and their dumps are listed
	// beside the open one, KeepArchive how long they and Resource Lists are found
	// in the archives. 7 and 30 days.
	KeepChanges, KeepArchive time.Duration
	// KeepDumps is how many Resource Dumps there are, the current one among them.
	// Each takes the space of the folder. 2.
	KeepDumps int
	// PackageBytes is how large a package of a dump gets before there is another,
	// counted before compression. A larger resource has one to itself. 1 GiB.
	PackageBytes int64
	// Linger is how long the parts of an older list are served, for who is
	// reading it. 10 min.
	Linger time.Duration
}

// Hooks are called when something has happened. They must not wait long. Any may
// be nil, and one may be called from several goroutines.
type Hooks struct {
	// Recorded is told of changes that are on disk and are going to be published.
	Recorded func(set string, changes []Change)
	// Posted is told of each POST of a notification to a hub, and its answer.
	Posted func(set string, p publisher.Posted)
	// Built is told the URLs of documents that have just appeared or changed.
	Built func(set string, urls []string)
}

// withDefaults checks o and fills in what is zero.
func (o Options) withDefaults() (Options, error) {
	if err := o.checkURL(); err != nil {
		return o, err
	}
	if o.StateDir == "" {
		return o, errors.New("the Source needs a folder for its state (StateDir)")
	}
	if len(o.Sets) == 0 {
		return o, errors.New("the Source has no folder: give it a set at least")
	}
	seen := make(map[string]bool)
	for _, s := range o.Sets {
		switch {
		case s.Name == "" && len(o.Sets) > 1:
			return o, errors.New("of several sets each needs a name")
		case s.Name != "" && (!setName.MatchString(s.Name) || taken[s.Name]):
			return o, fmt.Errorf("a set can't be called %q: use lower case letters, digits and hyphens, and none of the names that documents have", s.Name)
		case seen[s.Name]:
			return o, fmt.Errorf("two sets are called %q", s.Name)
		}
		seen[s.Name] = true
	}
	o.Schedule = o.Schedule.withDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func (o *Options) checkURL() error {
	u, err := url.Parse(o.PublicURL)
	if strings.Contains(o.PublicURL, "@") && (err != nil || u.User != nil) {
		return errors.New("the public URL has a user name or password, which everybody would see: give it without what ends in @, such as https://example.org/")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("the public URL %q is none: give the address under which others reach this Source, such as https://example.org/", o.PublicURL)
	}
	if !strings.HasSuffix(o.PublicURL, "/") {
		o.PublicURL += "/"
	}
	return nil
}

var (
	setName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
	// taken are the first segments of paths that a Source has itself.
	taken = map[string]bool{"data": true, "changes": true, "framework": true, "archive": true, "dumps": true}
)

const (
	day = 24 * time.Hour
	// mostKept bounds each list of closed or archived documents: as many as a document
	// can list, with the open one.
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
