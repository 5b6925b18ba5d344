package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/rshub/rshub/internal/base/yamlfile"

	"go.yaml.in/yaml/v3"
)

// newPublishersFile is what a publishers file says before it has a publisher.
const newPublishersFile = "# Who may publish with a credential, and to which topics. `rshub token` changes it,\n# and a running hub reads it again when it changes.\n"

// Errors of FindPublisher, AddToken, RevokeToken and RemovePublisher.
var (
	// ErrNoPublisher says that no publisher has this name.
	ErrNoPublisher = errors.New("there is no such publisher")
	// ErrNoToken says that the publisher has no such token.
	ErrNoToken = errors.New("the publisher has no such token")
	// ErrRefusedChange says that the change is not possible, or would also change something else.
	ErrRefusedChange = errors.New("the change was not made")
)

// AddToken adds the hash of a token to the publisher called name in the file at path. It
// creates the publisher, and the file, if needed. The topics that it may publish to, and those that it
// reads, are patterns. For an existing publisher they must be none or those that it has, so that its
// older tokens do not gain topics.
func AddToken(path, name string, topics, reads []string, token [sha256.Size]byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return unwritable(path, err)
	}
	return editPublishers(path, addToken(path, name, topics, reads, token))
}

func addToken(path, name string, topics, reads []string, token [sha256.Size]byte) change {
	return func(list []Publisher, root *yaml.Node) ([]Publisher, error) {
		hash := fmt.Sprintf("%x", token)
		i, err := find(list, name)
		if err != nil {
			if len(topics) == 0 && len(reads) == 0 {
				return nil, fmt.Errorf("%w, and a new one needs the topics that it may publish to (--topic) or read (--reads)", err)
			}
			item := mapping(scalar("name"), scalar(name))
			for _, of := range []struct {
				key      string
				patterns []string
			}{{"topics", topics}, {"reads", reads}} {
				if len(of.patterns) > 0 {
					item.Content = append(item.Content, scalar(of.key), sequence(of.patterns...))
				}
			}
			item.Content = append(item.Content, scalar("token_sha256"), sequence(hash))
			all := child(root, "publishers", sequence())
			if len(all.Content) == 0 {
				all.Style = 0 // not []
			}
			all.Content = append(all.Content, item)
			return append(list, Publisher{Name: name, Topics: topics, Reads: reads, TokenSHA256: [][32]byte{token}}), nil
		}
		if p := &list[i]; len(topics) > 0 && !sameSet(topics, p.Topics) {
			return nil, fmt.Errorf("%w: publisher %q may publish to %s; leave --topic out to make another token for these, or change them in %s",
				ErrRefusedChange, name, strings.Join(p.Topics, " "), path)
		} else if len(reads) > 0 && !sameSet(reads, p.Reads) {
			return nil, fmt.Errorf("%w: %q may read %s; leave --reads out to make another token for these, or change them in %s",
				ErrRefusedChange, name, cmp.Or(strings.Join(p.Reads, " "), "nothing"), path)
		}
		item := child(root, "publishers", nil).Content[i]
		hashes := child(item, "token_sha256", sequence())
		if hashes.Kind == yaml.ScalarNode { // a single token, not in a list
			*hashes = *sequence(hashes.Value)
		}
		hashes.Content = append(hashes.Content, scalar(hash))
		list[i].TokenSHA256 = append(list[i].TokenSHA256, token)
		return list, nil
	}
}

// RevokeToken removes the token of a publisher whose hash, in hexadecimal digits, begins with
// prefix, and returns the hash. It refuses to remove the only credential of a publisher.
func RevokeToken(path, name, prefix string) (revoked [sha256.Size]byte, err error) {
	return revoked, editPublishers(path, func(list []Publisher, root *yaml.Node) ([]Publisher, error) {
		i, err := find(list, name)
		if err != nil {
			return nil, err
		}
		p, found := &list[i], -1
		for n, sum := range p.TokenSHA256 {
			if !strings.HasPrefix(fmt.Sprintf("%x", sum), prefix) {
				continue
			}
			if found >= 0 {
				return nil, fmt.Errorf("%w: more than one token of %q has a hash that begins with %s; give more of it", ErrRefusedChange, name, prefix)
			}
			found = n
		}
		switch {
		case found < 0:
			return nil, fmt.Errorf("%w: none of %q has a hash that begins with %s", ErrNoToken, name, prefix)
		case len(p.TokenSHA256) == 1 && p.Secret == "":
			return nil, fmt.Errorf("%w: this is the only token of %q; make another one first, or revoke the publisher as a whole", ErrRefusedChange, name)
		}
		revoked = p.TokenSHA256[found]
		item := child(root, "publishers", nil).Content[i]
		p.TokenSHA256 = slices.Delete(p.TokenSHA256, found, found+1)
		if len(p.TokenSHA256) == 0 {
			p.TokenSHA256 = nil
			at := indexOf(item, "token_sha256")
			item.Content = slices.Delete(item.Content, at, at+2)
		} else {
			hashes := child(item, "token_sha256", nil)
			hashes.Content = slices.Delete(hashes.Content, found, found+1)
		}
		return list, nil
	})
}

// RemovePublisher removes a publisher with all its credentials from the file, and returns it.
func RemovePublisher(path, name string) (removed Publisher, err error) {
	return removed, editPublishers(path, func(list []Publisher, root *yaml.Node) ([]Publisher, error) {
		i, err := find(list, name)
		if err != nil {
			return nil, err
		}
		removed = list[i]
		all := child(root, "publishers", nil)
		all.Content = slices.Delete(all.Content, i, i+1)
		return slices.Delete(list, i, i+1), nil
	})
}

// FindPublisher returns the publisher called name in the file at path.
func FindPublisher(path, name string) (Publisher, error) {
	list, err := ReadPublishers(path)
	if err != nil {
		return Publisher{}, err
	}
	i, err := find(list, name)
	if err != nil {
		return Publisher{}, err
	}
	return list[i], nil
}

// find returns the index of the publisher of a name. The error wraps ErrNoPublisher.
func find(list []Publisher, name string) (int, error) {
	i := slices.IndexFunc(list, func(p Publisher) bool { return p.Name == name })
	if i < 0 {
		return i, fmt.Errorf("%w: %q", ErrNoPublisher, name)
	}
	return i, nil
}

// change makes the same change to the content of a publishers file as a list, which it returns, and
// as YAML, whose mapping is root.
type change func(list []Publisher, root *yaml.Node) ([]Publisher, error)

// editPublishers changes a publishers file in one step: a reader sees the old one or the new
// one, also after a crash.
func editPublishers(path string, do change) (err error) {
	defer func() { err = unwritable(path, err) }()
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	text, err := yamlfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(newPublishersFile), nil
	}
	if err != nil {
		return fmt.Errorf("the publishers file: %w", err)
	}
	if text, err = edited(path, text, do); err != nil {
		return err
	}
	return replaceFile(path, text)
}

// edited returns the text of the publishers file at path after a change. Comments and order stay.
// If the list and the YAML differ after the change (as with anchors), it refuses it.
func edited(path string, text []byte, do change) ([]byte, error) {
	list, err := parsePublishers(path, text)
	if err != nil {
		return nil, err
	}
	doc, root, err := publishersNode(path, text)
	if err != nil {
		return nil, err
	}
	want, err := do(list, root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(doc), enc.Close()); err != nil {
		return nil, err
	}
	if out.Len() > yamlfile.MaxSize {
		return nil, fmt.Errorf("%w: %s would have more than %d bytes, which no hub reads", ErrRefusedChange, path, yamlfile.MaxSize)
	}
	got, err := parsePublishers(path, out.Bytes())
	if err != nil || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		return nil, fmt.Errorf("%w: this program cannot change %s without changing something else in it; edit it by hand", ErrRefusedChange, path)
	}
	return out.Bytes(), nil
}

// unwritable explains an error of a file that this user may not write, or of one that is
// mounted and so is to be changed where it comes from.
func unwritable(path string, err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %s is mounted read-only, as a Secret of Kubernetes is. Change a copy with --publishers-file COPY, and put it where the file comes from: the hub notices it (%w)", ErrRefusedChange, path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: this user may not change %s; run the command as the user that the hub runs as (%w)", ErrRefusedChange, path, err)
	}
	return err
}

// publishersNode returns the text of a publishers file as YAML: the document, and the mapping in it.
func publishersNode(path string, text []byte) (doc, root *yaml.Node, err error) {
	if !utf8.Valid(text) { // YAML may be UTF-16, too
		return nil, nil, fmt.Errorf("%w: %s is not UTF-8; save it as UTF-8", ErrRefusedChange, path)
	}
	doc = new(yaml.Node)
	if err := yaml.Unmarshal(text, doc); err != nil {
		return nil, nil, fmt.Errorf("%s: it is not YAML: %w", path, err)
	}
	if doc.Kind == 0 { // the file is empty, or has only comments
		doc.HeadComment = strings.TrimSpace(strings.TrimPrefix(string(text), "\ufeff"))
		doc.Kind = yaml.DocumentNode
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		doc.Content = []*yaml.Node{mapping()}
	}
	return doc, doc.Content[0], nil
}

func scalar(text string) *yaml.Node {
	n := new(yaml.Node)
	n.SetString(text)
	return n
}

func sequence(text ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, t := range text {
		n.Content = append(n.Content, scalar(t))
	}
	return n
}

// mapping makes a mapping of keys and their values in turn.
func mapping(pairs ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: pairs}
}

// indexOf returns the index of a key in the content of a mapping, and -1 if it has none. The
// value follows the key.
func indexOf(m *yaml.Node, key string) int {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// child returns the value of a key. If there is none, it sets the key to otherwise.
func child(m *yaml.Node, key string, otherwise *yaml.Node) *yaml.Node {
	i := indexOf(m, key)
	if i < 0 {
		m.Content = append(m.Content, scalar(key), otherwise)
		return otherwise
	}
	value := m.Content[i+1]
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	if value.Tag == "!!null" {
		m.Content[i+1] = otherwise
		return otherwise
	}
	return value
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
