package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rshub/rshub/internal/base/nearest"
)

// MaxSize is the largest size of a file, in bytes.
const MaxSize = 1 << 20

// Parse returns what data holds; nil: data is empty. Path is for the messages.
func Parse(path string, data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil // an empty file sets nothing
	} else if err != nil {
		return nil, fmt.Errorf("%s: it is not YAML: %w", path, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it has more than one YAML document; write all in one", path)
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil // only comments
	}
	return doc.Content[0], nil
}

// Keys calls do for each key of a mapping, with the entry of known, the key's value and its
// place. It returns an error with the place for each key that is unknown or repeated, or that
// do refuses.
func Keys[T any](path string, n *yaml.Node, known map[string]T, do func(what T, value *yaml.Node, from string) error) []error {
	if n.Kind != yaml.MappingNode {
		return []error{&placed{fmt.Errorf("%s:%d: write keys and values here, such as `name: value`", path, n.Line)}}
	}
	var errs []error
	seen := map[string]int{}
	for pair := range slices.Chunk(n.Content, 2) {
		key, value := pair[0], pair[1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		from := fmt.Sprintf("%s:%d", path, key.Line)
		what, ok := known[key.Value]
		switch {
		case !ok || key.Kind != yaml.ScalarNode:
			errs = append(errs, fmt.Errorf("%s: there is no setting %q%s", from, key.Value, nearest.DidYouMean(key.Value, slices.Collect(maps.Keys(known)))))
		case seen[key.Value] > 0:
			errs = append(errs, fmt.Errorf("%s: %s was set before, in line %d", from, key.Value, seen[key.Value]))
		default:
			if err := do(what, value, from); errors.As(err, new(*placed)) {
				errs = append(errs, err)
			} else if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", from, key.Value, err))
			}
		}
		seen[key.Value] = key.Line
	}
	for i := range errs {
		errs[i] = &placed{errs[i]}
	}
	return errs
}

// placed is an error that begins with its place. Keys of a mapping within another one leave it as it
// is.
type placed struct{ error }

// Unwrap returns the error without its type.
func (e *placed) Unwrap() error { return e.error }

// Scalars returns a scalar, or the scalars of a list, as they are written.
func Scalars(n *yaml.Node) ([]string, error) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, errors.New("it has no value; leave the key out for the default")
	case n.Kind == yaml.ScalarNode:
		return []string{n.Value}, nil
	case n.Kind != yaml.SequenceNode:
		return nil, errors.New("it has keys below it; write a value")
	}
	text := []string{}
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return nil, errors.New("a list may have only plain values")
		}
		text = append(text, item.Value)
	}
	return text, nil
}

// Read reads a file of at most MaxSize bytes.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxSize:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, MaxSize)
	}
	return data, nil
}
