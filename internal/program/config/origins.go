package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Origin is the value of one setting and the place that it comes from. It contains no
// secrets: most settings only name files with secrets, and Value has the others masked.
type Origin struct {
	Name  string
	Value []string // as it was written; several only in a list
	From  string   // "default", "default of --dev", "--listen", "RSHUB_LISTEN", "rshub.yaml:3"
	List  bool
	// Default says that the setting is not set anywhere. Auto describes what an empty default means.
	Default bool
	Auto    string

	same bool // it has the default, even if a file or a variable says so
}

// Text is the value in one piece, as a flag or a variable would hold it.
func (o Origin) Text() string { return strings.Join(o.Value, ",") }

// Origins holds every setting, in the order of the help.
type Origins []Origin

// Get returns the origin of a setting. That of an unknown one has only its name.
func (o Origins) Get(name string) Origin {
	if i := slices.IndexFunc(o, func(one Origin) bool { return one.Name == name }); i >= 0 {
		return o[i]
	}
	return Origin{Name: name}
}

// Where returns the place of a setting, for the beginning of a message.
func (o Origins) Where(name string) string {
	return o.Get(name).where()
}

// where returns the place of a setting, with its name unless the place includes it.
func (o Origin) where() string {
	begins := func(prefix string) bool { return strings.HasPrefix(o.From, prefix) }
	if begins("--") || slices.ContainsFunc(prefixes, begins) {
		return o.From
	}
	return o.From + ": " + o.Name
}

// Says returns the name, value and place of a setting, for the middle of a message.
func (o Origins) Says(name string) string {
	one := o.Get(name)
	return name + " is " + one.Text() + " (" + one.From + ")"
}

// YAML returns the settings that differ from the plain defaults as a file for
// --config.
func (o Origins) YAML() ([]byte, error) {
	doc := &yaml.Node{Kind: yaml.MappingNode}
	for _, one := range o {
		if one.Default || one.Name == "config" || one.From == "default of --dev" {
			continue
		}
		value := scalar(one.Text())
		if one.List {
			value = sequence(one.Value...)
			value.Style = yaml.FlowStyle
		} else if plain := (yaml.Node{Kind: yaml.ScalarNode, Value: value.Value}); plain.ShortTag() != "!!null" {
			value.Tag = "" // so that 20, true and 50MiB need no quotes
		}
		doc.Content = append(doc.Content, scalar(one.Name), value)
	}
	if len(doc.Content) == 0 {
		return []byte("# every setting has its default\n"), nil
	}
	return yaml.Marshal(doc)
}
