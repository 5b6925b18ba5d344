package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rshub/rshub/internal/base/yamlfile"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Item is an entry of a file that ReadItems reads.
type Item struct {
	Flags *pflag.FlagSet // has the values
	From  string         // the entry's place: file and line
}

// defaultsKey is the key of what all entries have unless they say otherwise.
const defaultsKey = "defaults"

// ReadItems reads a YAML file with several entries that have the same settings:
//
//	defaults:
//	  NAME: VALUE
//	LIST:
//	  - NAME: VALUE
//
// The settings are the flags of what fresh returns, which has their defaults; each entry gets
// one of its own. The error joins one for each mistake, with file and line. With it come the
// entries that could be read.
func ReadItems(path, list string, fresh func() *pflag.FlagSet) ([]Item, error) {
	data, err := yamlfile.Read(path)
	if err != nil {
		return nil, err
	}
	return parseItems(path, data, list, fresh)
}

func parseItems(path string, data []byte, list string, fresh func() *pflag.FlagSet) ([]Item, error) {
	root, err := yamlfile.Parse(path, data)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fmt.Errorf("%s: it has no list `%s:`", path, list)
	}
	var defaults layer
	var entries []*yaml.Node
	var errs []error
	errs = append(errs, yamlfile.Keys(path, root, map[string]bool{defaultsKey: true, list: false}, func(isDefaults bool, n *yaml.Node, _ string) error {
		switch {
		case isDefaults:
			values, wrong := itemValues(path, n, fresh())
			defaults = values
			_, more := setAll(fresh(), values)
			errs = slices.Concat(errs, wrong, more)
			return nil
		case n.Tag == "!!null":
			return nil
		case n.Kind != yaml.SequenceNode:
			return errors.New("it has to be a list; begin each entry with a hyphen")
		}
		entries = n.Content
		return nil
	})...)
	var items []Item
	for _, n := range entries {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		item := Item{Flags: fresh(), From: fmt.Sprintf("%s:%d", path, n.Line)}
		values, wrong := itemValues(path, n, item.Flags)
		_, _ = setAll(item.Flags, without(defaults, values)) // what is wrong there was said
		ok, more := setAll(item.Flags, values)
		if wrong = append(wrong, more...); ok && len(wrong) == 0 {
			items = append(items, item)
		}
		errs = append(errs, wrong...)
	}
	return items, errors.Join(errs...)
}

// itemValues reads the keys of an entry.
func itemValues(path string, n *yaml.Node, fs *pflag.FlagSet) (layer, []error) {
	known := map[string]*setting{}
	fs.VisitAll(func(f *pflag.Flag) {
		s := flagSetting(f)
		known[s.name] = &s
	})
	return keysOf(path, n, known)
}

// without returns the values that are not among others.
func without(values, others layer) layer {
	out := layer{}
	for name, v := range values {
		if _, given := others[name]; !given {
			out[name] = v
		}
	}
	return out
}

// setAll sets flags. The errors have the place of each value that is wrong.
func setAll(fs *pflag.FlagSet, values layer) (ok bool, errs []error) {
	var names []string
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s, v := flagSetting(fs.Lookup(name)), values[name]
		s.set = overlay(fs, name)
		if _, err := s.apply(v, false); err != nil {
			errs = append(errs, err)
		}
	}
	return len(errs) == 0, errs
}
