package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// sourceFlags are the settings of an entry of --sources.
type sourceFlags struct {
	copyFlags
	url, name string
}

// add adds the flags that an entry may have.
func (f *sourceFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "url", "", "any address of the Source")
	flags.StringVar(&f.name, "name", "", "the name of the copy (default: made of url)")
	f.addCopy(flags)
	f.addBaseline(flags)
	f.selection.add(flags)
	f.addSubscription(flags)
	f.addActions(flags)
}

// notInherited are the flags of the command that say something else there than in an entry.
var notInherited = map[string]bool{"dir": true, "state-dir": true}

// newSourceFlags returns the settings of an entry, with those of the command as defaults.
func newSourceFlags(command *pflag.FlagSet) (*sourceFlags, *pflag.FlagSet) {
	f, flags := &sourceFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(flags)
	command.Visit(func(given *pflag.Flag) {
		own := flags.Lookup(given.Name)
		if own == nil || notInherited[given.Name] {
			return
		}
		if list, ok := given.Value.(pflag.SliceValue); ok {
			_ = own.Value.(pflag.SliceValue).Replace(list.GetSlice()) //nolint:errcheck,forcetypeassert // it is the same flag
			return
		}
		_ = own.Value.Set(given.Value.String()) // it is the same flag, and was parsed already
	})
	return f, flags
}

// readSources reads the file of --sources. The error has a line for each mistake.
func (f *copyFlags) readSources(cmd *cobra.Command, log *slog.Logger) ([]destination.Member, error) {
	command := cmd.Flags()
	all := map[*pflag.FlagSet]*sourceFlags{}
	items, err := config.ReadItems(f.sources, "sources", func() *pflag.FlagSet {
		one, flags := newSourceFlags(command)
		all[flags] = one
		return flags
	})
	errs := []error{err}
	var members []destination.Member
	fleet := destination.FleetOptions{Dir: f.fleetDir()}
	names := map[string]string{} // the entry of each name
	for _, item := range items {
		one := all[item.Flags]
		m, err := f.member(cmd, one, item.Flags)
		m.Options.Hand = one.onChangeOf(cmd, m.Name, one.dir, log)
		key := strings.ToLower(m.Name)
		switch {
		case err != nil:
		case names[key] != "":
			err = fmt.Errorf("the name of this Source is %s, as in %s; give one of both a name of its own, such as `name: %s-2`", m.Name, names[key], m.Name)
		default:
			names[key] = item.From
			err = fleet.CheckMembers([]destination.Member{m})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", item.From, err))
			continue
		}
		members = append(members, m)
	}
	if err == nil && len(items) == 0 {
		errs = append(errs, fmt.Errorf("%s: there is no Source in the list `sources:`; to follow none, end the program", f.sources))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := fleet.CheckMembers(members); err != nil {
		return nil, fmt.Errorf("%s: %w", f.sources, err)
	}
	return members, nil
}

// member returns the copy that an entry describes.
func (f *copyFlags) member(cmd *cobra.Command, one *sourceFlags, flags *pflag.FlagSet) (destination.Member, error) {
	var m destination.Member
	if one.url == "" {
		return m, errors.New("url is missing: any address of the Source, such as https://source.example.org/")
	}
	if err := cli.CheckAddress("url", one.url); err != nil {
		return m, err
	}
	m.Name = cmp.Or(one.name, nameOf(one.url))
	one.dir = below(f.dir, cmp.Or(one.dir, m.Name))
	if one.stateDir != "" || f.stateDir != "" {
		one.stateDir = below(cmp.Or(f.stateDir, f.dir), cmp.Or(one.stateDir, m.Name))
	}
	if flags.Changed("poll") && one.way.poll > 0 && !flags.Changed("via") {
		one.way.via = "" // as if both were given here
	}
	for i, t := range one.tokens {
		if host, file, ok := strings.Cut(t, "="); ok && flags.Changed("token-file") {
			one.tokens[i] = host + "=" + below(filepath.Dir(f.sources), file)
		}
	}
	var version strings.Builder
	flags.VisitAll(func(flag *pflag.Flag) {
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			fmt.Fprintf(&version, "%s %q\n", flag.Name, list.GetSlice())
			return
		}
		fmt.Fprintf(&version, "%s %q\n", flag.Name, flag.Value.String())
	})
	var err error
	m.Version = version.String()
	m.Options, err = one.copyOptions(one.url)
	if err == nil && m.Options.Via == subscriber.ViaCallback && !f.calls(cmd) {
		err = errors.New("via is callback, and rssub has no callback: start it with --callback-url, or write another way")
	}
	return m, err
}

// below returns a path; a relative one begins at a folder.
func below(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// nameMost is how long the name is that nameOf makes.
const nameMost = 80

// nameOf makes the name of a copy of the address of its Source. It is safe as the name of a
// folder. Two addresses may have the same one.
func nameOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	path := strings.TrimSuffix(u.EscapedPath(), subscriber.WellKnown)
	if u.RawQuery != "" {
		path += "-" + u.RawQuery
	}
	text := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.Replace(u.Host, ":", "_", 1))+path)
	text = strings.TrimLeft(strings.TrimRight(text, "-."), "-._")
	if len(text) > nameMost {
		sum := sha256.Sum256([]byte(address))
		text = text[:nameMost-9] + "-" + hex.EncodeToString(sum[:4])
	}
	return text
}

// fleetDir is the folder of what is remembered of all copies.
func (f *copyFlags) fleetDir() string { return cmp.Or(f.stateDir, filepath.Join(f.dir, ".rssub")) }
