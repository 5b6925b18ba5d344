package config

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/rshub/rshub/internal/base/yamlfile"
)

// fromFile reads a YAML file of settings.
func fromFile(path string, table []setting) (layer, []error) {
	data, err := yamlfile.Read(path)
	if err != nil {
		return layer{}, []error{fmt.Errorf("the settings file: %w", err)}
	}
	return parseFile(path, data, table)
}

// parseFile reads the settings in data; path is for the messages.
func parseFile(path string, data []byte, table []setting) (layer, []error) {
	root, err := yamlfile.Parse(path, data)
	if err != nil || root == nil {
		return layer{}, []error{err}
	}
	known := map[string]*setting{}
	for i := range table {
		if table[i].name != "config" { // a settings file names no other
			known[table[i].name] = &table[i]
		}
	}
	return keysOf(path, root, known)
}

// keysOf reads the keys of a mapping, which are settings.
func keysOf(path string, n *yaml.Node, known map[string]*setting) (layer, []error) {
	l := layer{}
	errs := yamlfile.Keys(path, n, known, func(s *setting, n *yaml.Node, from string) error {
		text, err := yamlfile.Scalars(n)
		switch {
		case err != nil:
			return err
		case !s.list && (n.Kind == yaml.SequenceNode || len(text) != 1):
			return errors.New("it must be one value, not a list")
		}
		l[s.name] = given{text, from, n.Kind == yaml.SequenceNode}
		return nil
	})
	return l, errs
}
