package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/websub"
)

const (
	// MaxMembers is how many copies a Fleet has.
	MaxMembers = 1000

	startEvery  = 20 * time.Millisecond // a member begins
	opensAtOnce = 4
	handsAtOnce = 8
)

// FleetOptions configure a Fleet. Dir is required. A zero elsewhere stands for the default
// that is named.
type FleetOptions struct {
	// Dir is the folder of what the Fleet remembers: which copies it has. It belongs to one
	// Fleet at a time.
	Dir string
	// Callback is the public URL of Handler. Each copy has a path below it, with its name.
	// Empty: no hub can call the Fleet.
	Callback string
	// Parallel is how many requests go to one host at once, over all copies: 8. Total is how
	// many further requests there are at once, beside one for each copy: 256.
	Parallel, Total int
	// Baselines is how many baselines are made at once, not counting slow ones: 4.
	Baselines int

	// Allow lists ranges of addresses that may be called besides public ones. It has no
	// effect with a Client.
	Allow []netip.Prefix
	// Client calls all hosts. Nil: a guarded client.
	Client subscriber.Doer
	// Log gets the log lines, each with the name of the copy as "source". Nil: none are
	// written.
	Log *slog.Logger
}

// Member is a copy of a Fleet.
type Member struct {
	// Name tells the copy apart from the others: letters, digits, dots, hyphens and
	// underscores, at most 100, of which the first is a letter or digit. It is part of the
	// callback's URL. Two names that differ only in case are the same.
	Name string
	// Options are those of the copy. The Fleet sets Callback, Parallel, Allow, Client and Log.
	Options Options
	// Version is another one when Options are. A member with the same Version goes on
	// undisturbed when the members are set.
	Version string
}

// Fleet follows the Sources of many copies in one process. A Source that is away, wrong or
// slow delays no other: each is tried again at its own pace. It may be shared between
// goroutines.
type Fleet struct {
	o         FleetOptions
	log       *slog.Logger
	db        *boltfile.DB
	shared    *shared
	baselines turns
	opens     turns
	hands     turns // calls of Options.Hand
	bodies    room
	end       func()
	changed   clock.Signal

	mu      sync.Mutex
	members map[string]*member // by name in lower case; those that leave are among them
}

// OpenFleet opens the folder of a Fleet, or begins one. Close releases it.
func OpenFleet(o FleetOptions) (*Fleet, error) {
	f := &Fleet{o: o, members: map[string]*member{}, end: func() {}}
	if err := f.open(); err != nil {
		f.end()
		return nil, fmt.Errorf("destination: %w", err)
	}
	return f, nil
}

func (f *Fleet) open() error {
	o := &f.o
	if o.Dir == "" {
		return &OptionsError{errors.New("FleetOptions.Dir is missing: name the folder of what the fleet remembers")}
	}
	if err := websub.CheckURL("FleetOptions.Callback", o.Callback); o.Callback != "" && err != nil {
		return &OptionsError{err}
	}
	o.Callback = strings.TrimSuffix(o.Callback, "/")
	o.Parallel = cmp.Or(max(o.Parallel, 0), 8)
	o.Total = cmp.Or(max(o.Total, 0), 256)
	o.Baselines = cmp.Or(max(o.Baselines, 0), 4)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Client == nil {
		client, err := egress.New(egress.Options{Allow: o.Allow, Unless: egress.AllowedBy("FleetOptions.Allow"), UserAgent: "rssub", PerHost: o.Parallel, Idle: o.Total})
		if err != nil {
			return &OptionsError{err}
		}
		o.Client, f.end = client, client.CloseIdleConnections
	}
	f.log, f.shared, f.baselines, f.opens, f.hands = o.Log, newShared(o.Parallel, o.Total), newTurns(o.Baselines), newTurns(opensAtOnce), newTurns(handsAtOnce)
	if err := errors.Join(os.MkdirAll(o.Dir, 0o700), disk.Mark(o.Dir)); err != nil {
		return err
	}
	var err error
	if f.db, err = boltfile.Open(filepath.Join(o.Dir, fleetFile), fleetOptions()); err != nil {
		return err
	}
	all, err := f.recorded()
	for _, r := range all {
		f.members[strings.ToLower(r.Name)] = newMember(f, r)
	}
	return err
}

// Close releases the folder. Run must have ended.
func (f *Fleet) Close() error {
	defer f.end()
	return f.db.Close()
}

// name is what the name of a member looks like.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// Set says which members there are from now on. New ones begin, and changed ones begin
// again. One that is not among them ends: its subscriptions are ended at the hubs, and its
// copy stays. If anything is wrong, the error says what, and nothing changes.
func (f *Fleet) Set(members []Member) error {
	if err := f.o.CheckMembers(members); err != nil {
		return &OptionsError{err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	records := map[string]fleetRecord{}
	for key, m := range f.members {
		r := m.record()
		r.Leaving = true
		records[key] = r
	}
	for i := range members {
		records[strings.ToLower(members[i].Name)] = recordOfMember(&members[i])
	}
	if err := f.putRecords(records); err != nil {
		return err
	}
	wanted := map[string]*Member{}
	for i := range members {
		wanted[strings.ToLower(members[i].Name)] = &members[i]
	}
	for key, m := range f.members {
		m.want(wanted[key])
	}
	for key, w := range wanted {
		if f.members[key] == nil {
			f.members[key] = newMember(f, records[key])
			f.members[key].want(w)
		}
	}
	f.changed.Broadcast()
	return nil
}

// Members returns the members that Set named last, in the order of their names.
func (f *Fleet) Members() (out []Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(f.members)) {
		if w := f.members[key].wantedNow(); w != nil {
			out = append(out, *w)
		}
	}
	return out
}

// CheckMembers reports why these cannot be the members of a Fleet. It opens nothing.
func CheckMembers(members []Member) error {
	if len(members) > MaxMembers {
		return fmt.Errorf("there are %d Sources, and a fleet has at most %d", len(members), MaxMembers)
	}
	names, used := map[string]string{}, map[string]folderUse{}
	for i := range members {
		m := &members[i]
		key := strings.ToLower(m.Name)
		if !name.MatchString(m.Name) {
			return fmt.Errorf("%q cannot be the name of a copy: use up to 100 letters, digits, dots, hyphens and underscores, and begin with a letter or digit", m.Name)
		}
		if _, twice := names[key]; twice {
			return fmt.Errorf("two copies have the name %q", m.Name)
		}
		names[key] = m.Name
		if err := m.Options.check(); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		dirs, err := m.folders()
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		for n, what := range []string{"folder", "state folder"} {
			if other, twice := used[dirs[n]]; twice {
				return fmt.Errorf("%s and %s have the same folder %s: give each its own", other.member, m.Name, dirs[n])
			}
			used[dirs[n]] = folderUse{m.Name, what}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(used)) {
		one := used[dir]
		for above := filepath.Dir(dir); above != filepath.Dir(above); above = filepath.Dir(above) {
			if other, within := used[above]; within && other.member != one.member {
				return fmt.Errorf("the %s of %s is within the %s of %s, where it would be in the way: give each its own", one.what, one.member, other.what, other.member)
			}
		}
	}
	return nil
}

// folders returns the real paths of the copy and of its state.
func (m *Member) folders() (dirs [2]string, err error) {
	state := cmp.Or(m.Options.StateDir, filepath.Join(m.Options.Dir, stateName))
	for n, dir := range []string{m.Options.Dir, state} {
		if dirs[n], err = realPath(dir); err != nil {
			break
		}
	}
	return dirs, err
}

// folderUse is what a member has a folder for.
type folderUse struct{ member, what string }

// CheckMembers reports why these cannot be the members of a Fleet with these options: the reasons
// of the function CheckMembers, and a copy within Dir, around it, or with its state there. It opens nothing.
func (o FleetOptions) CheckMembers(members []Member) error {
	if err := CheckMembers(members); err != nil {
		return err
	}
	state, err := realPath(o.Dir)
	if err != nil {
		return err
	}
	for i := range members {
		m := &members[i]
		dirs, err := m.folders()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", m.Name, err)
		case isWithin(state, dirs[0]):
			return fmt.Errorf("%s: the folder %s is within %s, where the state of all copies is; give the copy a folder outside of it", m.Name, m.Options.Dir, o.Dir)
		case contains(dirs[0], state):
			return fmt.Errorf("%s: the folder %s contains %s, where the state of all copies is; give the copy a folder of its own", m.Name, m.Options.Dir, o.Dir)
		case contains(dirs[1], state):
			return fmt.Errorf("%s: the state folder %s contains %s, where the state of all copies is; give the state of the copy a folder of its own", m.Name, dirs[1], o.Dir)
		}
	}
	return nil
}

// contains reports whether other is dir, or within it.
func contains(dir, other string) bool {
	within, err := filepath.Rel(dir, other)
	return err == nil && filepath.IsLocal(within)
}

// isWithin reports whether dir is a folder of state, or is within it. A name that some file system takes for
// that of the state folder counts as it.
func isWithin(state, dir string) bool {
	below, err := filepath.Rel(filepath.Dir(state), dir)
	if err != nil {
		return false
	}
	top, _, _ := strings.Cut(filepath.ToSlash(below), "/")
	own := filepath.Base(state)
	return top == own || isOwn(seen(top)) && isOwn(seen(own))
}

// Run follows the Sources until ctx ends, and returns nil then. It may be called once.
func (f *Fleet) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.keepStatus(ctx) })
	for {
		changed := f.changed.Wait()
		for _, m := range f.toStart() {
			wg.Go(func() { m.run(ctx) })
			if !clock.Sleep(ctx, startEvery) {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// toStart returns the members that do not run yet, which run from now on.
func (f *Fleet) toStart() (out []*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(f.members)) {
		if m := f.members[key]; !m.started {
			m.started = true
			out = append(out, m)
		}
	}
	return out
}

// Handler is what hubs call at FleetOptions.Callback and below it.
func (f *Fleet) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segments := strings.Split(r.URL.Path, "/") // ...: name, set, subscription
		c, known := f.serving(segments[max(0, len(segments)-3)])
		switch {
		case c != nil:
			f.bodies.serve(c.Handler(), w, r)
		case known:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "The copy is not ready for notifications yet.", http.StatusServiceUnavailable)
		default:
			http.Error(w, "There is no such callback.", http.StatusNotFound)
		}
	})
}

// serving returns the copy whose callback has a name. Known: there is a member of the name.
// A member that leaves lends its name to another one that has its folder by now.
func (f *Fleet) serving(name string) (c *Copy, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[strings.ToLower(name)]
	if m == nil {
		return nil, false
	}
	if c = m.copy.Load(); c != nil {
		return c, true
	}
	for _, other := range f.members {
		if other != m && other.dir() == m.dir() && other.copy.Load() != nil {
			return other.copy.Load(), true
		}
	}
	return nil, true
}
