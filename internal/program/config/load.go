package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/nearest"
)

// The environment variables of each program begin with its name.
const envPrefix = "RSHUB_"

// prefixes begin the environment variables of all programs.
var prefixes = []string{envPrefix, "RSPUB_", "RSSUB_"}

// given is a value of a setting as a layer has it. The zero value stands for none.
type given struct {
	text  []string
	from  string // its place: "--listen", "RSHUB_LISTEN", "rshub.yaml:3"
	items bool   // text has the items of a list, and not a list in one text
}

// layer holds the settings of one source, by name.
type layer map[string]given

// AddFlags adds a flag for every setting to fs, or for those that are named. Resolve reads
// them.
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

// flagValue keeps the text of a flag, which Resolve parses.
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

// String returns nothing before the flag is set, so that pflag adds no second default to
// the help.
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

// Resolve reads the settings from parsed flags that AddFlags made, an environment of
// NAME=value and the file that one of them may name. The error joins one for each mistake,
// so that all can be corrected at once. Settings are checked against each other only if there is
// no mistake in any value. Origins is complete only if there is no error.
func Resolve(fs *pflag.FlagSet, environ []string) (Config, Origins, error) {
	c, origins, wrong := resolve(fs, environ)
	err := errors.Join(wrong, c.readFiles(origins))
	if wrong == nil {
		err = errors.Join(err, c.check(origins))
	}
	return c, origins, err
}

// resolve is Resolve without the checks across settings and without reading the files that
// they name.
func resolve(fs *pflag.FlagSet, environ []string) (Config, Origins, error) {
	var c Config
	table := settings(&c)
	values, errs := fromAll(fromFlags(fs), envPrefix, environ, table)

	// --dev changes the defaults of the others, so it comes before them. Its error is in
	// the loop again.
	dev := slices.IndexFunc(table, func(s setting) bool { return s.name == "dev" })
	_, _ = table[dev].apply(values["dev"], false)
	origins := make(Origins, 0, len(table))
	for i := range table {
		o, err := table[i].apply(values[table[i].name], c.Dev)
		origins, errs = append(origins, o), append(errs, err)
	}
	return c, origins, errors.Join(errs...)
}

// fromAll returns the value of each setting that is set: a flag wins over a variable, and both
// over the file that one of them may name.
func fromAll(flags layer, prefix string, environ []string, table []setting) (layer, []error) {
	values, errs := fromEnv(prefix, environ, table)
	maps.Copy(values, flags)
	if path := values["config"].text; len(path) > 0 && path[0] != "" {
		file, fileErrs := fromFile(path[0], table)
		maps.Copy(file, values)
		values, errs = file, append(errs, fileErrs...)
	}
	return values, errs
}

// apply sets s to the value v, or to its default if v is the zero value.
func (s *setting) apply(v given, dev bool) (Origin, error) {
	o := Origin{Name: s.name, List: s.list, Auto: s.auto}
	switch {
	case v.from != "":
		o.From = v.from
	case dev && s.dev != "":
		v.text, o.From = []string{s.dev}, "default of --dev"
	default:
		v.text, o.From, o.Default = []string{s.def}, "default", true
		if o.same = s.def == ""; o.same {
			return o, nil // the zero value; some parsers would refuse an empty text
		}
	}
	value := v.text
	if !s.exact || !v.items {
		value = s.texts(v.text...)
	}
	if o.Value = value; s.hide != nil {
		o.Value = []string{s.hide(value[0])}
	}
	o.same = o.Default || !strings.HasPrefix(o.From, "--") && slices.Equal(value, s.texts(s.def))
	if err := s.set(value); err != nil {
		return o, fmt.Errorf("%s: %w", o.where(), err)
	}
	return o, nil
}

// fromFlags reads the flags that were set. Flags that AddFlags did not make are no settings.
func fromFlags(fs *pflag.FlagSet) layer {
	l := layer{}
	fs.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*flagValue); ok {
			l[f.Name] = given{text: v.text, from: "--" + f.Name}
		}
	})
	return l
}

// notOurs matches variables that begin as settings do and are none. The operator's commands
// read the first, and `rssub listen --exec` and `rssub follow --on-change` set the second. Kubernetes sets the others in every
// pod of a namespace that has a Service whose name begins with that of a program.
var notOurs = regexp.MustCompile(`^RSHUB_ADMIN_URL$|^RSSUB_(CHANGE|URL|DATETIME|LENGTH|HASH|TYPE|NOTIFICATION_ID|FROM|UNTIL|REPAIRED|FILE|SOURCE_NAME)$|^RS(?:HUB|PUB|SUB)(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// fromEnv reads the variables that begin with prefix. An unknown one is an error, like an
// unknown flag: a mistyped RSHUB_PUBLISH_AUTH must not open the hub silently.
func fromEnv(prefix string, environ []string, table []setting) (layer, []error) {
	byEnv := map[string]string{}
	for _, s := range table {
		byEnv[s.env(prefix)] = s.name
	}
	l := layer{}
	var errs []error
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		name, ok := byEnv[key]
		switch {
		case ok:
			l[name] = given{text: []string{value}, from: key}
		case strings.HasPrefix(key, prefix) && !notOurs.MatchString(key):
			errs = append(errs, fmt.Errorf("%s: there is no such setting%s", key, nearest.DidYouMean(key, slices.Collect(maps.Keys(byEnv)))))
		}
	}
	return l, errs
}
