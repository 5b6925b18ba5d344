package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/subscriber/destination"
)

// selectionFlags say which resources a copy has.
type selectionFlags struct {
	destination.Selection
	again bool
}

func (f *selectionFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.Include, "include", nil, "copy only resources whose URL matches `PATTERN`, such as https://a.example/papers/*; repeatable. The copy remembers --include, --exclude, --type and --collection; --include '*' alone selects everything again")
	flags.StringArrayVar(&f.Exclude, "exclude", nil, "copy no resources whose URL matches `PATTERN`; repeatable")
	flags.StringArrayVar(&f.Types, "type", nil, "copy only resources that the Source lists with the media `TYPE`, such as application/pdf or image/*; repeatable")
	flags.StringArrayVar(&f.Collections, "collection", nil, "copy only resources of the collection `URI`; repeatable")
	flags.BoolVar(&f.again, "reselect", false, "delete files that the selection leaves out, as far as --max-delete allows (default: they stay, and are not updated)")
}

// set sets the options. Without any of the flags, the copy remembers its selection.
func (f *selectionFlags) set(o *destination.Options) {
	o.Reselect = f.again
	if len(f.Include)+len(f.Exclude)+len(f.Types)+len(f.Collections) > 0 {
		o.Select = &f.Selection
	}
}

// leftOut is the text for n entries or files that the selection leaves out.
func leftOut(n int, s destination.Selection) string {
	return fmt.Sprintf("%d, by %s", n, selectionText(s))
}

// selectionText is a selection as flags.
func selectionText(s destination.Selection) string {
	var parts []string
	for _, p := range []struct {
		name   string
		values []string
	}{{"--include", s.Include}, {"--exclude", s.Exclude}, {"--type", s.Types}, {"--collection", s.Collections}} {
		for _, v := range p.values {
			parts = append(parts, p.name+" "+v)
		}
	}
	return strings.Join(parts, " ")
}
