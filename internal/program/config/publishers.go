package config

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/rshub/rshub/internal/base/yamlfile"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// publishersName is the default publishers file, in the data folder.
const publishersName = "publishers.yaml"

// ErrNoPublishersFile is wrapped by the error of ReadPublishers if the file does not exist.
var ErrNoPublishersFile = errors.New("there is no publishers file")

// ReadPublishers reads a publishers file:
//
//	publishers:
//	  - name: library
//	    topics: ["https://example.org/changes/"]
//	    token_sha256: [<64 hexadecimal digits>]
//	    hmac_secret_file: library.secret
//	  - name: aggregator
//	    reads: ["https://example.org/*"]
//	    token_sha256: [<64 hexadecimal digits>]
//
// A relative path of a secret file starts at the folder of the publishers file. The error
// joins one for each mistake, with file and line. With it come the publishers that could be
// read.
func ReadPublishers(path string) ([]Publisher, error) {
	data, err := yamlfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoPublishersFile, err)
	}
	if err != nil {
		return nil, fmt.Errorf("the publishers file: %w", err)
	}
	return parsePublishers(path, data)
}

func parsePublishers(path string, data []byte) ([]Publisher, error) {
	root, err := yamlfile.Parse(path, data)
	if err != nil || root == nil {
		return nil, err
	}
	var list []Publisher
	var errs []error
	names, tokens := map[string]bool{}, map[[32]byte]bool{}
	errs = append(errs, yamlfile.Keys(path, root, map[string]bool{"publishers": true}, func(_ bool, n *yaml.Node, _ string) error {
		if n.Tag == "!!null" {
			return nil
		}
		if n.Kind != yaml.SequenceNode {
			return errors.New("it has to be a list; begin each item with `- name:`")
		}
		for _, item := range n.Content {
			p, problems := parsePublisher(path, item)
			if names[p.Name] {
				problems = append(problems, fmt.Errorf("%s:%d: there is another publisher %q", path, item.Line, p.Name))
			}
			names[p.Name] = true
			for _, t := range p.TokenSHA256 {
				if tokens[t] {
					problems = append(problems, fmt.Errorf("%s:%d: this file has a token of %q twice", path, item.Line, p.Name))
				}
				tokens[t] = true
			}
			list, errs = append(list, p), append(errs, problems...)
		}
		return nil
	})...)
	return list, errors.Join(errs...)
}

// parsePublisher reads one item of the list.
func parsePublisher(path string, n *yaml.Node) (Publisher, []error) {
	var p Publisher
	hash := func(s string) (sum [32]byte, err error) {
		raw, err := hex.DecodeString(s)
		if err != nil || len(raw) != len(sum) {
			return sum, errors.New("each token_sha256 is 64 hexadecimal digits, such as `printf %s \"$TOKEN\" | sha256sum` prints")
		}
		return [32]byte(raw), nil
	}
	errs := yamlfile.Keys(path, n, map[string]func([]string) error{
		"name":             func(text []string) error { return single(text, &p.Name) },
		"topics":           many(parsePattern, &p.Topics),
		"reads":            many(parsePattern, &p.Reads),
		"token_sha256":     many(hash, &p.TokenSHA256),
		"hmac_secret_file": func(text []string) error { return readSecretBeside(path, text, &p) },
	}, func(set func([]string) error, value *yaml.Node, _ string) error {
		text, err := yamlfile.Scalars(value)
		if err != nil {
			return err
		}
		return set(text)
	})
	if len(errs) > 0 {
		return p, errs
	}
	bad := ""
	switch {
	case p.Name == "":
		bad = "a publisher has no name"
	case len(p.Topics) == 0 && len(p.Reads) == 0:
		bad = fmt.Sprintf("publisher %q has neither topics nor reads, so it could publish and read nothing", p.Name)
	case len(p.TokenSHA256) == 0 && p.Secret == "":
		bad = fmt.Sprintf("publisher %q has neither token_sha256 nor hmac_secret_file, so nobody can publish as this publisher", p.Name)
	default:
		return p, nil
	}
	return p, []error{fmt.Errorf("%s:%d: %s", path, n.Line, bad)}
}

func single(text []string, field *string) error {
	if len(text) != 1 {
		return errors.New("it must be one value, not a list")
	}
	*field = text[0]
	return nil
}

func readSecretBeside(path string, text []string, p *Publisher) error {
	if err := single(text, &p.SecretFile); err != nil {
		return err
	}
	if !filepath.IsAbs(p.SecretFile) {
		p.SecretFile = filepath.Join(filepath.Dir(path), p.SecretFile)
	}
	var err error
	p.Secret, err = ReadSecret(p.SecretFile)
	return err
}

// ReadSecret reads a secret from a file that contains nothing else except white space around it.
func ReadSecret(path string) (Secret, error) {
	data, err := yamlfile.Read(path)
	secret := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		return "", err
	case secret == "":
		return "", fmt.Errorf("%s is empty", path)
	case strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("%s has more than one line, or control characters", path)
	}
	return Secret(secret), nil
}

// minAdminToken is the least number of characters in the operator's token: enough that a
// random one cannot be guessed.
const minAdminToken = 16

// ReadAdminToken is ReadSecret for the operator's token. Exposed reports whether every user
// of this machine may read or change the file; access for its group is fine.
func ReadAdminToken(path string) (token Secret, exposed bool, err error) {
	token, err = ReadSecret(path)
	if err != nil {
		return "", false, err
	}
	if n := utf8.RuneCountInString(string(token)); n < minAdminToken {
		return "", false, fmt.Errorf("the token in %s has %d characters and needs at least %d; make one with: (umask 077; openssl rand -hex 32 > %s)", path, n, minAdminToken, path)
	}
	info, err := os.Stat(path)
	return token, err == nil && info.Mode().Perm()&0o007 != 0, err
}

// readPublishers fills in c.Publishers.
func (c *Config) readPublishers() error {
	named := c.PublishersFile != ""
	c.PublishersFile = c.publishersFile()
	list, err := ReadPublishers(c.PublishersFile)
	// There is no file. If the data folder is a file, the store reports that.
	if !named && (errors.Is(err, ErrNoPublishersFile) || errors.Is(err, syscall.ENOTDIR)) {
		return nil
	}
	c.Publishers = list
	return err
}

// publishersFile returns the file that was named, or the default one.
func (c *Config) publishersFile() string {
	return cmp.Or(c.PublishersFile, filepath.Join(c.DataDir, publishersName))
}

// PublishersFile returns the publishers file that a hub reads with these flags and this
// environment. AddFlags made the flags; some may be missing.
func PublishersFile(fs *pflag.FlagSet, environ []string) (string, error) {
	c, _, err := resolve(fs, environ)
	return c.publishersFile(), err
}
