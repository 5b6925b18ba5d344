package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/nearest"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
)

// clientOf returns the client for requests to hosts that a person or a document named.
func clientOf(f *cli.CallFlags) (*egress.Client, error) {
	allow, err := f.Ranges()
	if err != nil {
		return nil, err
	}
	c, err := egress.New(egress.Options{UserAgent: "rspub", Allow: allow})
	if err != nil {
		return nil, cli.Fail(cli.ExitUsage, "--allow-cidr: %w", err)
	}
	return c, nil
}

// hubFlags name the hubs, and the credential for publishing there.
type hubFlags struct {
	hubs                  []string // as given
	urls                  []string // of all hubs, once the files were read
	tokenFile, secretFile string
	prefix                string // of the flags of these files
}

func (f *hubFlags) add(flags *pflag.FlagSet) { f.addAs(flags, "") }

// addAs is add with a prefix before the names of the files, such as "hub-", where another flag has
// these.
func (f *hubFlags) addAs(flags *pflag.FlagSet, prefix string) {
	f.prefix = "--" + prefix
	flags.StringArrayVar(&f.hubs, "hub", nil, "`URL` of a hub that changes are pushed to; repeatable. For rspub serve NAME=URL pushes only that set there")
	flags.StringVar(&f.tokenFile, prefix+"token-file", "", "`FILE` with the token of this publisher at the hubs, read again when it changes")
	flags.StringVar(&f.secretFile, prefix+"secret-file", "", "`FILE` with the secret that notifications are signed with, instead of a token; read again when it changes")
}

// resolve reads the files.
func (f *hubFlags) resolve() ([]publisher.Hub, error) { return f.forSets(nil) }

// forSets reads the files, and gives sets the hubs that name them, as NAME=URL. It returns the
// hubs of all other sets. After it f.urls has the URLs of all.
func (f *hubFlags) forSets(sets []source.Set) ([]publisher.Hub, error) {
	if f.tokenFile != "" && f.secretFile != "" {
		return nil, cli.Fail(cli.ExitUsage, "%[1]stoken-file and %[1]ssecret-file exclude each other: give only one of them", f.prefix)
	}
	token, err := cli.ReadCredential(f.prefix+"token-file", f.tokenFile)
	if err != nil {
		return nil, err
	}
	secret, err := cli.ReadCredential(f.prefix+"secret-file", f.secretFile)
	if err != nil {
		return nil, err
	}
	var hubs []publisher.Hub
	var urls []string
	for _, h := range f.hubs {
		name, h, err := oneSet("--hub", h, sets)
		if err != nil {
			return nil, err
		}
		if err := cli.CheckURL("--hub", h); err != nil {
			return nil, err
		}
		hub := publisher.Hub{
			URL: h, Token: token.Get(), Secret: secret.Get(),
			Credential: func() (string, string) { return token.Get(), secret.Get() },
		}
		if i := slices.IndexFunc(sets, func(s source.Set) bool { return s.Name == name }); i >= 0 {
			sets[i].Hubs = append(sets[i].Hubs, hub)
		} else {
			hubs = append(hubs, hub)
		}
		if !slices.Contains(urls, h) {
			urls = append(urls, h)
		}
	}
	f.urls = urls
	return hubs, nil
}

// setFlags are the flags that name the folders.
type setFlags struct {
	dir          string
	sets, ignore []string
	catalogues   catalogueFlags
	resourceURLs []string
	rules        []string
	ruleFiles    []ruleFile // of rules, once resolve has read them
	hidden       bool
	hiddenAllow  []string
	via          bool
	rescan       cli.Span
	settle       cli.Span
	maxDeleted   float64
}

func (f *setFlags) add(cmd *cobra.Command) {
	f.maxDeleted = source.DefaultMaxDeleted
	f.rescan, f.settle = cli.Span(source.DefaultRescan), cli.Span(source.DefaultSettle)
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", "", "the `FOLDER` to publish")
	flags.StringArrayVar(&f.sets, "set", nil, "`NAME=FOLDER` to publish below /NAME/, with its own documents and topic; repeatable, instead of --dir")
	f.catalogues.add(flags)
	flags.StringArrayVar(&f.resourceURLs, "resource-url", nil, "`URL` at which a web server serves the folder already: resources are listed there and not served by rspub (default: data/ below --public-url). Of several sets each has the URL and its name; NAME=URL sets it for one set; repeatable")
	flags.StringArrayVar(&f.rules, "rules", nil, "`FILE` with rules for links and attributes of resources; rspub serve reads it again when it changes. NAME=FILE sets it for one set, instead of the file for all; repeatable")
	flags.StringArrayVar(&f.ignore, "ignore", nil, "`PATTERN` of files to leave out, as in a .gitignore; repeatable (default: what version control, editors and desktops keep in folders; an empty one: nothing)")
	flags.BoolVar(&f.hidden, "hidden", false, "also publish names that begin with a dot, such as .env and .ssh (default: of these, only .well-known/)")
	flags.StringArrayVar(&f.hiddenAllow, "hidden-allow", nil, "`PATTERN` of names that begin with a dot and are published, as in a .gitignore; repeatable")
	flags.BoolVar(&f.via, "via", true, "if rssub keeps the folder as a copy, link each file to its address at the Source that published it first")
	flags.Var(cli.Positive(&f.settle), "settle", "`TIME` without changes after which a file counts as written")
	flags.Var(cli.Fraction(&f.maxDeleted), "max-deleted", "safety stop: if more than this `FRACTION` of the resources, such as 50% or 0.5, and at least ten, are missing in one scan (an unmounted disk, for example), publish no deletions")
}

// resolve returns the sets.
func (f *setFlags) resolve(stdin io.Reader) ([]source.Set, error) {
	options := source.FolderOptions{Settle: time.Duration(f.settle), Rescan: time.Duration(f.rescan), MaxDeleted: f.maxDeleted, Hidden: f.hidden, HiddenAllow: f.hiddenAllow, NoVia: !f.via}
	if f.ignore != nil {
		options.Ignore = []string{}
		for _, p := range f.ignore {
			if p != "" {
				options.Ignore = append(options.Ignore, p)
			}
		}
	}
	if f.hidden && len(f.hiddenAllow) > 0 {
		return nil, cli.Fail(cli.ExitUsage, "--hidden publishes all names that begin with a dot, so --hidden-allow has no effect: leave out one of them")
	}
	sets, err := f.catalogues.resolve(options, stdin)
	if err != nil {
		return nil, err
	}
	switch {
	case f.dir == "" && len(f.sets) == 0 && len(sets) > 0 && (f.hidden || len(f.hiddenAllow) > 0 || f.ignore != nil):
		return nil, cli.Fail(cli.ExitUsage, "--hidden, --hidden-allow and --ignore are about folders, and a catalogue names each resource that is published: leave them out")
	case f.dir != "" && len(sets) > 0:
		return nil, cli.Fail(cli.ExitUsage, "--dir publishes a folder and --catalogue what a catalogue lists: give one of them, or name sets with --set NAME=FOLDER and --catalogue NAME=FILE. The folder that the paths of a catalogue begin at is --content-root")
	case f.dir != "" && len(f.sets) > 0:
		return nil, cli.Fail(cli.ExitUsage, "--dir publishes one folder, and --set several, each with a name: give only one of them")
	case len(f.sets)+len(sets) > 1 && slices.ContainsFunc(sets, func(s source.Set) bool { return s.Name == "" }):
		return nil, cli.Fail(cli.ExitUsage, "of several sets, each needs a name: write --catalogue NAME=FILE")
	case f.dir == "" && len(f.sets)+len(sets) == 0:
		return nil, cli.Fail(cli.ExitUsage, "name the folder to publish with --dir, or several with --set NAME=FOLDER, or a catalogue with --catalogue")
	}
	if f.dir != "" {
		options.Dir = f.dir
		return f.complete([]source.Set{{Folder: options}})
	}
	for _, s := range f.sets {
		name, dir, ok := strings.Cut(s, "=")
		if !ok || name == "" || dir == "" {
			return nil, cli.Fail(cli.ExitUsage, "--set %q must be of the form NAME=FOLDER", s)
		}
		o := options
		o.Dir = dir
		sets = append(sets, source.Set{Name: name, Folder: o})
	}
	return f.complete(sets)
}

// complete adds to sets what flags say of all of them, or of one.
func (f *setFlags) complete(sets []source.Set) ([]source.Set, error) {
	err := perSet("--resource-url", f.resourceURLs, sets, func(s *source.Set, url string, named bool) error {
		if !named && s.Name != "" {
			url = strings.TrimSuffix(url, "/") + "/" + s.Name + "/"
		}
		s.ResourceURL = url
		return nil
	})
	if err == nil {
		err = f.readRules(sets)
	}
	return sets, err
}

// perSet calls do for each set with its value of a flag: the one that names the set, as
// NAME=VALUE, or else the one for all sets.
func perSet(flag string, values []string, sets []source.Set, do func(s *source.Set, value string, named bool) error) error {
	given := make(map[string]string) // by the name of the set
	for _, v := range values {
		to, value, err := oneSet(flag, v, sets)
		if err != nil {
			return err
		}
		switch before, twice := given[to]; {
		case twice && to == all:
			return cli.Fail(cli.ExitUsage, "%s is given twice for all sets, as %s and %s; write NAME=VALUE for one set", flag, before, value)
		case twice:
			return cli.Fail(cli.ExitUsage, "%s is given twice for the set %s", flag, to)
		}
		given[to] = value
	}
	for i := range sets {
		value, named := given[sets[i].Name]
		if !named {
			value = given[all]
		}
		if value == "" {
			continue
		}
		if err := do(&sets[i], value, named); err != nil {
			return err
		}
	}
	return nil
}

// all stands for all sets. No set has that name.
const all = "="

// oneSet returns the name of the set that the value of a flag is for, and the value. A name that no
// set has is part of the name of a file, or a mistake.
func oneSet(flag, v string, sets []source.Set) (name, value string, err error) {
	if name, value = split(v); name == "" {
		return all, v, nil
	}
	var names []string
	for i := range sets {
		if sets[i].Name != "" {
			names = append(names, sets[i].Name)
		}
	}
	if slices.Contains(names, name) {
		return name, value, nil
	}
	if _, err := os.Lstat(v); err == nil {
		return all, v, nil
	}
	hint := nearest.DidYouMean(name, names)
	if len(names) == 0 {
		hint = "; --set and --catalogue give sets their names"
	}
	return "", "", cli.Fail(cli.ExitUsage, "%s %s: there is no set %q%s", flag, v, name, hint)
}

// scheduleFlags say when documents are written and how long they are kept.
type scheduleFlags struct {
	list, dump, rotate, archive, keepChanges, keepArchive cli.Span
	rotateAt, keepDumps                                   int
	packageBytes                                          int64
}

func (f *scheduleFlags) add(flags *pflag.FlagSet) {
	f.list, f.dump, f.rotate, f.archive = cli.Span(time.Minute), cli.Span(24*time.Hour), cli.Span(30*24*time.Hour), cli.Span(24*time.Hour)
	f.keepChanges, f.keepArchive = cli.Span(7*24*time.Hour), cli.Span(30*24*time.Hour)
	f.keepDumps, f.packageBytes, f.rotateAt = 2, 1<<30, 50_000
	flags.Var(&f.list, "list-every", "shortest `TIME` between two Resource Lists, if there are changes; off: no Resource List")
	flags.Var(&f.dump, "dump-every", "shortest `TIME` between two Resource Dumps, if there are changes; off: no dumps")
	flags.Var(cli.AtLeast(&f.keepDumps, 1), "keep-dumps", "keep `N` Resource Dumps; each needs as much space as the folder")
	flags.Var(cli.Size(&f.packageBytes, 1), "package-bytes", "approximate `SIZE` of a package of a dump before compression, such as 1GiB")
	f.addChangeLists(flags)
	flags.Var(&f.archive, "archive-every", "`TIME` between two Resource Lists in the archive; off: no archives")
	flags.Var(&f.keepArchive, "keep-archive", "`TIME` for which lists stay in the archives; off: for ever")
}

// addChangeLists adds the flags about Change Lists.
func (f *scheduleFlags) addChangeLists(flags *pflag.FlagSet) {
	flags.Var(&f.rotate, "rotate-every", "`TIME` after which a Change List is closed and the next one begins; off: only by --rotate-at")
	flags.Var(cli.AtLeast(&f.rotateAt, 1), "rotate-at", "close a Change List when it has `N` changes, 50000 at most")
	flags.Var(&f.keepChanges, "keep-changes", "`TIME` for which closed Change Lists and their dumps stay listed beside the open one; off: for ever")
}

func (f *scheduleFlags) schedule() source.Schedule {
	if f.list == 0 {
		f.list = 1 // at once
	}
	return source.Schedule{
		ResourceList: time.Duration(f.list), Dump: f.dump.OrNever(), Archive: f.archive.OrNever(),
		Rotate: f.rotate.OrNever(), RotateAt: f.rotateAt, KeepChanges: f.keepChanges.OrNever(), KeepArchive: f.keepArchive.OrNever(),
		KeepDumps: f.keepDumps, PackageBytes: f.packageBytes,
	}
}
