package transfer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rshub/rshub/store/seal"
)

// ErrNoKey is returned by Export if there is no key and nothing says how to write the secrets of
// subscribers.
var ErrNoKey = errors.New("the file would contain the secrets of subscribers unencrypted")

// These prefixes bind a secret to its own line of a file, so that it opens nowhere else.
const (
	ofSubscription = "export\nsubscription"
	ofRequest      = "export\nrequest"
)

// secrets writes and reads the secrets of one file.
type secrets struct {
	how  string // one of the Secrets constants
	keys *seal.Keys
}

// newSecrets is for writing a file. An empty how seals with the keys.
func newSecrets(how string, keys *seal.Keys) (*secrets, error) {
	switch {
	case how == "" && keys == nil:
		return nil, ErrNoKey
	case how == "":
		how = SecretsSealed
	case how == SecretsSealed && keys == nil:
		return nil, ErrNoKey
	}
	return &secrets{how, keys}, nil
}

// sealKey is the id of the key that seals; empty: none does.
func (s *secrets) sealKey() string {
	if s.how != SecretsSealed {
		return ""
	}
	return s.keys.IDs()[0].String()
}

// secretsOf is for reading a file.
func secretsOf(h header, keys *seal.Keys) (*secrets, error) {
	switch h.Secrets {
	case SecretsPlain, SecretsLeftOut:
	case SecretsSealed:
		if !slices.ContainsFunc(keys.IDs(), func(id seal.ID) bool { return id.String() == h.SealKey }) {
			return nil, fmt.Errorf("%w: the secrets in this file were sealed with the key %s, which is not in --seal-key-file; add that key to the file, on a separate line", ErrRefused, h.SealKey)
		}
	default:
		return nil, fmt.Errorf("%w: this version does not know %q as a way to write secrets", ErrRefused, h.Secrets)
	}
	return &secrets{h.Secrets, keys}, nil
}

func (s *secrets) write(secret, of, topic, callback string) secretLine {
	switch {
	case secret == "":
		return secretLine{}
	case s.how == SecretsLeftOut:
		return secretLine{LeftOut: true}
	case s.how == SecretsPlain:
		return secretLine{Value: []byte(secret)}
	default:
		return secretLine{Value: s.keys.Seal(nil, secret, about(of, topic, callback))}
	}
}

func (s *secrets) read(l secretLine, of, topic, callback string) (string, error) {
	switch {
	case l.LeftOut && (s.how != SecretsLeftOut || len(l.Value) > 0):
		return "", errors.New("it says that its secret was left out, but the first line does not")
	case len(l.Value) == 0:
		return "", nil
	case s.how == SecretsPlain:
		return string(l.Value), nil
	case s.how == SecretsLeftOut:
		return "", errors.New("it has a secret, but the first line says that secrets were left out")
	}
	if _, sealed := seal.SealedBy(l.Value); !sealed {
		return "", errors.New("its secret is not sealed, but the first line says that all are")
	}
	secret, err := s.keys.Open(l.Value, about(of, topic, callback))
	if err != nil {
		return "", fmt.Errorf("its secret: %w", err)
	}
	return secret, nil
}

func about(of, topic, callback string) string { return of + "\n" + topic + "\n" + callback }
