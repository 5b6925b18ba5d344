package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// settingOf is the annotation of a flag whose setting has another name, overlaid that of one that Overlay has set.
const settingOf, overlaid = "setting", "overlaid"

// Given reports whether somebody gave a flag for a purpose: one of the command line, or another value than the default.
// A file of settings may name all defaults.
func Given(flags *pflag.FlagSet, name string) bool {
	f := flags.Lookup(name)
	return f != nil && f.Changed && (f.Annotations[overlaid] == nil || f.Value.String() != f.DefValue)
}

// NameSetting gives the setting of a flag another name than the flag has: for a program where
// flags of two commands have one name and two meanings. The help of the flag names the variable,
// which begins with prefix.
func NameSetting(f *pflag.Flag, name, prefix string) {
	f.Annotations = map[string][]string{settingOf: {name}}
	s := setting{name: name}
	f.Usage += " (" + s.env(prefix) + ")"
}

// SettingName is the name of a flag's setting: its key in the file.
func SettingName(f *pflag.Flag) string {
	if names := f.Annotations[settingOf]; len(names) > 0 {
		return names[0]
	}
	return f.Name
}

// Overlay sets the flags in fs that the command line does not set: from an environment of
// NAME=value, and from the YAML file that the flag `config` or its variable names. It is Resolve
// for rspub and rssub, whose settings are flags. Known has the flags of all commands of the
// program that are settings, by the names of the settings: a variable or a key that only another command has is left to that
// command, and one that none has is an error. Prefix begins the variables, such as RSPUB_.
//
// A list in the file keeps its items as they are. In a variable, white space and commas separate
// them. The error joins one for each mistake. Origins has the settings in fs, and is complete
// only if there is no error.
func Overlay(fs, known *pflag.FlagSet, prefix string, environ []string) (Origins, error) {
	var table []setting
	flags, own := layer{}, map[string]*pflag.Flag{}
	fs.VisitAll(func(f *pflag.Flag) { own[SettingName(f)] = f })
	known.VisitAll(func(f *pflag.Flag) {
		if o := own[f.Name]; o != nil {
			f = o
		}
		s := flagSetting(f)
		table = append(table, s)
		if f.Changed && own[s.name] != nil {
			flags[s.name] = given{text: flagText(f), from: "--" + f.Name, items: true}
		}
	})
	values, errs := fromAll(flags, prefix, environ, table)
	var origins Origins
	for i := range table {
		s := &table[i]
		f := own[s.name]
		if f == nil {
			continue
		}
		s.set = ignore // it has its value already
		if _, given := values[s.name]; given && flags[s.name].from == "" {
			s.set = overlay(fs, f.Name)
		}
		o, err := s.apply(values[s.name], false)
		origins, errs = append(origins, o), append(errs, err)
	}
	return origins, errors.Join(errs...)
}

// flagSetting describes a flag as a setting without a function to set it.
func flagSetting(f *pflag.Flag) setting {
	_, list := f.Value.(pflag.SliceValue)
	s := setting{name: SettingName(f), help: f.Usage, list: list, exact: true}
	if def := strings.Join(flagText(f), ","); list {
		s.auto = cmp.Or(def, "none")
	} else {
		s.def, s.auto = def, "none"
	}
	return s
}

// flagText returns the values of a flag.
func flagText(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// overlay returns a function that sets a flag, which then counts as given.
func overlay(fs *pflag.FlagSet, name string) func([]string) error {
	return func(text []string) error {
		f := fs.Lookup(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[overlaid] = []string{}
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			return cause(fs.Set(name, text[0]))
		}
		if err := list.Replace(text); err != nil {
			return err
		}
		f.Changed = true
		return nil
	}
}

// cause is the error of the value itself, without the flag that pflag names in front of it.
func cause(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	if invalid.GetFlag().Value.Type() == "bool" { // the text of pflag is that of strconv
		_, err = parseBool(invalid.GetValue())
		return err
	}
	return invalid.Unwrap()
}

// FlagError is the error of a command line, with the cause in the words of this package.
func FlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	return fmt.Errorf("%s%w", strings.TrimSuffix(err.Error(), invalid.Unwrap().Error()), cause(err))
}
