package validate

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"sync/atomic"

	"github.com/rshub/rshub/websub"
)

// Publisher may publish with a credential (HUB-53).
type Publisher struct {
	Name string
	// Topics are the topics that it may publish to.
	Topics []Pattern
	// Reads are the topics whose history it may read.
	Reads []Pattern
	// TokenSHA256 are the hashes of its bearer tokens. The tokens themselves are not
	// stored.
	TokenSHA256 [][sha256.Size]byte
	// Secret is the secret with which it signs bodies; empty: it does not sign.
	Secret string
}

// Covers reports whether p may publish to topic.
func (p *Publisher) Covers(topic string) bool { return MatchAny(p.Topics, topic) }

// Errors of Publishers. Neither says which publishers there are.
var (
	// ErrUnknownCredential: no publisher has this token, or signs like this.
	ErrUnknownCredential = errors.New("the credential is not that of any publisher here")
	// ErrNotCovered: the publisher is known and may not publish to this topic.
	ErrNotCovered = errors.New("the credential does not cover this topic")
)

// foreignSignatureWork bounds, in bytes hashed, the search for a signature among the
// publishers that do not cover the topic. It only serves to answer 403 instead of 401.
const foreignSignatureWork = 64 << 20

// Publishers is the registry of publishers. The zero Publishers is empty, and so is a nil
// *Publishers. It may be shared between goroutines.
type Publishers struct{ list atomic.Pointer[[]Publisher] }

// NewPublishers returns a registry of list, which it keeps.
func NewPublishers(list []Publisher) *Publishers {
	p := &Publishers{}
	p.Replace(list)
	return p
}

// Replace replaces the list by list, which it keeps.
func (p *Publishers) Replace(list []Publisher) { p.list.Store(&list) }

func (p *Publishers) all() []Publisher {
	if p == nil {
		return nil
	}
	if list := p.list.Load(); list != nil {
		return *list
	}
	return nil
}

// ByToken returns the publisher that has this bearer token and covers topic. Otherwise
// the error is ErrUnknownCredential, or ErrNotCovered with the publisher that has the
// token. Every hash is compared, each in constant time.
func (p *Publishers) ByToken(token, topic string) (Publisher, error) {
	return p.byToken(token, func(q *Publisher) bool { return q.Covers(topic) })
}

// Reader is ByToken for reading the history of a topic.
func (p *Publishers) Reader(token, topic string) (Publisher, error) {
	return p.byToken(token, func(q *Publisher) bool { return MatchAny(q.Reads, topic) })
}

func (p *Publishers) byToken(token string, covers func(*Publisher) bool) (Publisher, error) {
	sum := sha256.Sum256([]byte(token))
	found, covering := -1, -1
	list := p.all()
	for i := range list {
		for _, known := range list[i].TokenSHA256 {
			if subtle.ConstantTimeCompare(sum[:], known[:]) != 1 {
				continue
			}
			found = i
			if covers(&list[i]) {
				covering = i
			}
		}
	}
	switch {
	case token == "" || found < 0:
		return Publisher{}, ErrUnknownCredential
	case covering < 0:
		return list[found], ErrNotCovered
	}
	return list[covering], nil
}

// BySignature returns the publisher that covers topic and with whose secret header, an
// X-Hub-Signature, signs body. Otherwise the error is ErrUnknownCredential, or
// ErrNotCovered with the publisher of the secret. It calls room before it hashes body
// with each secret. An error of room ends the search and is returned.
func (p *Publishers) BySignature(header string, body []byte, topic string, room func() error) (Publisher, error) {
	list := p.all()
	var foreign []int
	for i := range list {
		if list[i].Secret == "" {
			continue
		}
		if !list[i].Covers(topic) {
			foreign = append(foreign, i)
			continue
		}
		if err := room(); err != nil {
			return Publisher{}, err
		}
		if websub.VerifySignature(header, list[i].Secret, body) == nil {
			return list[i], nil
		}
	}
	for n, i := range foreign {
		if (n+1)*len(body) > foreignSignatureWork {
			break
		}
		if err := room(); err != nil {
			return Publisher{}, err
		}
		if websub.VerifySignature(header, list[i].Secret, body) == nil {
			return list[i], ErrNotCovered
		}
	}
	return Publisher{}, ErrUnknownCredential
}
