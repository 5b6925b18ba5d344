package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/nearest"
)

const envPrefix = "RSHUB_"

// given is a value of a setting as it was found somewhere.
type given struct {
	text []string
	from string // where, for a person: "--listen", "RSHUB_LISTEN", "rshub.yaml:3"
}

// layer is what one source says, by the name of the setting.
type layer map[string]given

// AddFlags puts a flag for every setting into fs, or for those that are named, to
// be read by Resolve.
func AddFlags(fs *pflag.FlagSet, names ...string) {
	fs.SortFlags = false
	for _, s := range settings(new(Config)) {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		help, def := s.help, s.def+s.auto
		switch {
		case s.dev != "":
			help += fmt.Sprintf(" (default %s; with --dev %s)", def, s.dev)
		case s.arg != "":
			help += fmt.Sprintf(" (default %s)", def)
		}
		f := fs.VarPF(&flagValue{arg: s.arg, list: s.list}, s.name, "", help)
		if s.arg == "" {
			f.NoOptDefVal = "true"
		}
	}
}

// flagValue keeps what a flag was given as text; Resolve makes sense of it.
type flagValue struct {
	arg  string
	list bool
	text []string
}

func (v *flagValue) Set(s string) error {
	if !v.list {
		v.text = nil
	}
	v.text = append(v.text, s)
	return nil
}

// String returns nothing before the flag is set, so that pflag adds no default
// of its own to the help.
func (v *flagValue) String() string { return strings.Join(v.text, ",") }

func (v *flagValue) Type() string {
	if v.arg == "" {
		return "bool"
	}
	return v.arg
}

// Load reads the settings from command line arguments, an environment of
// NAME=value and the file that one of them may name. See Resolve.
func Load(args, environ []string) (Config, Origins, error) {
	fs := pflag.NewFlagSet("rshub", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return Config{}, nil, err
	}
	if fs.NArg() > 0 {
		return Config{}, nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return Resolve(fs, environ)
}

// Resolve reads the settings from flags that AddFlags made and that were
// parsed, an environment of NAME=value and the file that one of them may name.
// The error joins one for each mistake, so that a person can mend all at once.
// Origins is complete only where there is no error.
func Resolve(fs *pflag.FlagSet, environ []string) (Config, Origins, error) {
	c, origins, err := resolve(fs, environ)
	if err != nil {
		return c, origins, err
	}
	err = c.finish(origins)
	return c, origins, err
}

// resolve is Resolve without what the settings are together, and without the
// files that they name.
func resolve(fs *pflag.FlagSet, environ []string) (Config, Origins, error) {
	var c Config
	table := settings(&c)
	flags := fromFlags(fs, table)
	env, errs := fromEnv(environ, table)
	layers := []layer{flags, env}
	if path := first("config", layers).text; len(path) > 0 && path[0] != "" {
		file, fileErrs := fromFile(path[0], table)
		layers, errs = append(layers, file), append(errs, fileErrs...)
	}

	// --dev changes the defaults of the others, so it comes before them.
	i := slices.IndexFunc(table, func(s setting) bool { return s.name == "dev" })
	dev, err := table[i].apply(layers, false)
	origins := make(Origins, 0, len(table))
	for i := range table {
		s := &table[i]
		if s.name == "dev" {
			origins, errs = append(origins, dev), append(errs, err)
			continue
		}
		o, err := s.apply(layers, c.Dev)
		origins, errs = append(origins, o), append(errs, err)
	}
	return c, origins, errors.Join(errs...)
}

// apply sets s from the first layer that has it, else to its default.
func (s *setting) apply(layers []layer, dev bool) (Origin, error) {
	o := Origin{Name: s.name, List: s.list, Auto: s.auto}
	v := first(s.name, layers)
	switch {
	case v.from != "":
		o.From = v.from
	case dev && s.dev != "":
		v.text, o.From = []string{s.dev}, "default of --dev"
	default:
		v.text, o.From, o.Default = []string{s.def}, "default", true
		if s.def == "" {
			return o, nil // the zero value, which some parsers would refuse
		}
	}
	value := s.texts(v.text...)
	if o.Value = value; s.hide != nil {
		o.Value = []string{s.hide(value[0])}
	}
	if err := s.set(value); err != nil {
		if strings.HasPrefix(o.From, "--") || strings.HasPrefix(o.From, envPrefix) {
			return o, fmt.Errorf("%s: %w", o.From, err)
		}
		return o, fmt.Errorf("%s: %s: %w", o.From, s.name, err)
	}
	return o, nil
}

// first returns what the first layer that has the setting says; of a setting
// that none has, the zero value.
func first(name string, layers []layer) given {
	for _, l := range layers {
		if v, ok := l[name]; ok {
			return v
		}
	}
	return given{}
}

func fromFlags(fs *pflag.FlagSet, table []setting) layer {
	l := layer{}
	for _, s := range table {
		f := fs.Lookup(s.name)
		if f == nil || !f.Changed {
			continue
		}
		if v, ok := f.Value.(*flagValue); ok {
			l[s.name] = given{v.text, "--" + s.name}
		}
	}
	return l
}

// notOurs are variables that begin with our prefix and are no settings of a
// hub: the operator's commands read the first, and Kubernetes puts the others
// into every pod beside a Service whose name begins with rshub.
var notOurs = regexp.MustCompile(`^RSHUB_ADMIN_URL$|^RSHUB(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// fromEnv reads the variables that begin with RSHUB_. One that is no setting is
// an error, as an unknown flag is: a mistyped RSHUB_PUBLISH_AUTH must not open
// the hub in silence.
func fromEnv(environ []string, table []setting) (layer, []error) {
	byEnv := map[string]string{}
	for _, s := range table {
		byEnv[s.env()] = s.name
	}
	l := layer{}
	var errs []error
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		name, ok := byEnv[key]
		switch {
		case ok:
			l[name] = given{[]string{value}, key}
		case strings.HasPrefix(key, envPrefix) && !notOurs.MatchString(key):
			errs = append(errs, fmt.Errorf("%s: there is no such setting%s", key, nearest.DidYouMean(key, keys(byEnv))))
		}
	}
	return l, errs
}
