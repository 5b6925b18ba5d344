package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Origin says of one setting what it is and where that was said. It holds no
// secrets: most settings only name files that do, and of the others Value is what
// may be shown.
type Origin struct {
	Name  string
	Value []string // as it was written; several only in a list
	From  string   // "default", "default of --dev", "--listen", "RSHUB_LISTEN", "rshub.yaml:3"
	List  bool
	// Default says that nobody set it. Auto is what happens where the value is
	// then empty, for a person.
	Default bool
	Auto    string
}

// Text is the value in one piece, as a flag or a variable would hold it.
func (o Origin) Text() string { return strings.Join(o.Value, ",") }

// Origins holds every setting, in the order of the help.
type Origins []Origin

// Get returns the origin of a setting; of an unknown one, the zero Origin.
func (o Origins) Get(name string) Origin {
	for _, one := range o {
		if one.Name == name {
			return one
		}
	}
	return Origin{}
}

// Where tells the setting's place, for the front of a message.
func (o Origins) Where(name string) string {
	from := o.Get(name).From
	if strings.HasPrefix(from, "--") || strings.HasPrefix(from, envPrefix) {
		return from
	}
	return from + ": " + name
}

// Says tells what a setting is and who says so, for the middle of a message.
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
		value := &yaml.Node{}
		var err error
		if one.List {
			err = value.Encode(one.Value)
			value.Style = yaml.FlowStyle
		} else {
			value.SetString(one.Text())
			if plain := (yaml.Node{Kind: yaml.ScalarNode, Value: value.Value}); plain.ShortTag() != "!!null" {
				value.Tag = "" // 20, true and 50MiB stand there as a person writes them
			}
		}
		if err != nil {
			return nil, err
		}
		doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: one.Name}, value)
	}
	if len(doc.Content) == 0 {
		return []byte("# every setting has its default\n"), nil
	}
	return yaml.Marshal(doc)
}
