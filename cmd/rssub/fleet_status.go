package main

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber/destination"
)

// notFollowed is the state of a Source of the file that no rssub follow has yet.
const notFollowed = "not followed yet"

// printFleet prints the status of the Sources of a file, and of those that are being left.
func (f *copyFlags) printFleet(cmd *cobra.Command, asJSON bool) error {
	members, wrong := f.readSources(cmd, nil)
	all, err := destination.ReadFleet(f.fleetDir())
	if errors.Is(err, fs.ErrNotExist) {
		all, err = []destination.MemberStatus{}, nil
	}
	for i := range members {
		m := &members[i]
		if !slices.ContainsFunc(all, func(st destination.MemberStatus) bool { return st.Name == m.Name }) {
			all = append(all, destination.MemberStatus{Name: m.Name, Source: m.Options.Source, Dir: m.Options.Dir, State: notFollowed})
		}
	}
	slices.SortStableFunc(all, func(a, b destination.MemberStatus) int { return cmp.Compare(a.Name, b.Name) })
	if wrong != nil { // what is followed is shown all the same
		err = errors.Join(err, cli.WrongSettings(wrong))
	}
	if asJSON {
		return errors.Join(printJSON(cmd.OutOrStdout(), all), err)
	}
	var rows [][]string
	for i := range all {
		rows = append(rows, fleetRow(&all[i]))
	}
	return errors.Join(cli.WriteTable(cmd.OutOrStdout(), []string{"SOURCE", "STATE", "WAY", "COMPLETE", "FAILED", "HELD", "RECEIVED UNTIL", "TROUBLE"}, rows), err)
}

// fleetRow is the line of a Source.
func fleetRow(m *destination.MemberStatus) []string {
	failed, held := 0, 0
	var until time.Time
	var by []string // the ways of its sets
	for i := range m.Sets {
		s := &m.Sets[i]
		failed, held = failed+s.Failed, held+s.DeletionsHeld
		if way := string(s.Way); way != "" && !slices.Contains(by, way) {
			by = append(by, way)
		}
		if !s.AsOf.IsZero() && (until.IsZero() || s.Until.Before(until)) {
			until = s.Until
		}
	}
	complete := "no"
	if m.Ready {
		complete = "yes"
	}
	return []string{m.Name, m.State, cmp.Or(strings.Join(by, ","), "-"), complete, strconv.Itoa(failed), strconv.Itoa(held), stamp(until), m.Trouble}
}
