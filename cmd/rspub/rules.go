package main

import (
	"context"
	"log/slog"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher/source"
)

// ruleFile is a file of rules, and the set that it is for.
type ruleFile struct{ name, set string }

// readRules reads the files of --rules into sets.
func (f *setFlags) readRules(sets []source.Set) error {
	f.ruleFiles = nil
	err := perSet("--rules", f.rules, sets, func(s *source.Set, name string, _ bool) (err error) {
		s.Rules, err = source.ReadRules(name)
		s.Folder.Exclude = append(s.Folder.Exclude, name)
		f.ruleFiles = append(f.ruleFiles, ruleFile{name, s.Name})
		return err
	})
	if err != nil {
		return cli.Fail(cli.ExitUsage, "%w", err)
	}
	return nil
}

// watchRules reads the files of --rules again when they change. If one is wrong, its last
// rules stay in force.
func (f *setFlags) watchRules(ctx context.Context, s *source.Source, log *slog.Logger) {
	watched := make([]ingress.Watched, len(f.ruleFiles))
	for i := range watched {
		watched[i].Take(f.ruleFiles[i].name)
	}
	for len(watched) > 0 && clock.Sleep(ctx, ingress.FilesEvery) {
		for i := range watched {
			if !watched[i].Changed() {
				continue
			}
			file := f.ruleFiles[i]
			watched[i].Take(file.name)
			rules, err := source.ReadRules(file.name)
			if err == nil {
				err = s.SetRules(file.set, rules)
			}
			if err != nil {
				log.Error("the rules have changed and are not used; those of before stay in force", "event", "rules_reload_failed", "file", file.name, "set", file.set, "error", err)
				continue
			}
			log.Info("the rules were read again", "event", "rules_reloaded", "file", file.name, "set", file.set)
		}
	}
}
