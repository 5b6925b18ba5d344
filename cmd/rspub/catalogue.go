package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher/source"
)

// catalogueFlags name catalogues, which sets may have instead of folders.
type catalogueFlags struct{ catalogues, roots []string }

func (f *catalogueFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.catalogues, "catalogue", nil, "publish what a catalogue lists, instead of a folder: a `FILE`, a URL, or - for standard input. NAME=FILE publishes it below /NAME/, as --set does; repeatable")
	flags.StringArrayVar(&f.roots, "content-root", nil, "`FOLDER` that the paths of a catalogue begin at; NAME=FOLDER for the catalogue of one set; repeatable")
}

// namedValue is the value of a flag that may say which set it is for.
var namedValue = regexp.MustCompile(`^([a-z0-9][a-z0-9-]*)=(.+)$`)

// split returns the name of a set, if v has one, and the rest of v.
func split(v string) (name, value string) {
	if m := namedValue.FindStringSubmatch(v); m != nil {
		return m[1], m[2]
	}
	return "", v
}

// resolve returns the sets that have catalogues.
func (f *catalogueFlags) resolve(options source.FolderOptions, stdin io.Reader) (sets []source.Set, err error) {
	for _, v := range f.catalogues {
		x := source.Set{Folder: options}
		x.Name, x.Catalogue.Location = split(v)
		if x.Catalogue.Location == "-" {
			if slices.ContainsFunc(sets, func(s source.Set) bool { return s.Catalogue.Location == "-" }) {
				return nil, cli.Fail(cli.ExitUsage, "--catalogue - is given twice, and there is one standard input: write one of the two catalogues to a file")
			}
			x.Catalogue.Input = stdin
		}
		if err := f.root(&x); err != nil {
			return nil, err
		}
		sets = append(sets, x)
	}
	for _, v := range f.roots {
		name, _ := split(v)
		if !slices.ContainsFunc(sets, func(s source.Set) bool { return name == "" || s.Name == name }) {
			return nil, cli.Fail(cli.ExitUsage, "--content-root %s is for no --catalogue; a folder is published with --dir or --set", v)
		}
	}
	return sets, nil
}

// root sets where the paths of a catalogue begin.
func (f *catalogueFlags) root(x *source.Set) error {
	for _, v := range f.roots {
		name, folder := split(v)
		if name == x.Name || name == "" && x.Folder.Dir == "" {
			x.Folder.Dir = folder
		}
	}
	if x.Folder.Dir != "" {
		if _, err := os.Stat(x.Folder.Dir); err != nil {
			return cli.Fail(cli.ExitNotFound, "--content-root: %w", err)
		}
	}
	return nil
}

// excludeCatalogue keeps the catalogue from being published as a resource, if it lies in the folder.
func excludeCatalogue(x *source.Set) {
	if x.Catalogue.Location != "" && x.Catalogue.Location != "-" && !strings.Contains(x.Catalogue.Location, "://") {
		x.Folder.Exclude = append(x.Folder.Exclude, filepath.Clean(x.Catalogue.Location))
	}
}
