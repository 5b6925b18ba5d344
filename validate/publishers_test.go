package validate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"sync"
	"testing"

	"github.com/rshub/rshub/websub"
)

func patterns(t *testing.T, list ...string) []Pattern {
	t.Helper()
	var out []Pattern
	for _, s := range list {
		p, err := ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func twoPublishers(t *testing.T) *Publishers {
	return NewPublishers([]Publisher{
		{Name: "alice", Topics: patterns(t, "https://a.example/*"), TokenSHA256: [][32]byte{sha256.Sum256([]byte("old")), sha256.Sum256([]byte("new"))}, Secret: "alice's"},
		{Name: "bob", Topics: patterns(t, "https://b.example/*"), TokenSHA256: [][32]byte{sha256.Sum256([]byte("bob"))}, Secret: "bob's"},
		{Name: "nobody", Topics: patterns(t, "*")},
	})
}

func TestPublishersByToken(t *testing.T) {
	p := twoPublishers(t)
	for _, tc := range []struct {
		token, topic, name string
		err                error
	}{
		{"old", "https://a.example/x", "alice", nil},
		{"new", "https://a.example/x", "alice", nil},
		{"bob", "https://b.example/x", "bob", nil},
		{"bob", "https://a.example/x", "bob", ErrNotCovered},
		{"new", "https://c.example/x", "alice", ErrNotCovered},
		{"wrong", "https://a.example/x", "", ErrUnknownCredential},
		{"", "https://a.example/x", "", ErrUnknownCredential},
	} {
		got, err := p.ByToken(tc.token, tc.topic)
		if got.Name != tc.name || !errors.Is(err, tc.err) {
			t.Errorf("ByToken(%q, %s) = %q, %v; want %q, %v", tc.token, tc.topic, got.Name, err, tc.name, tc.err)
		}
	}
}

func unlimited() error { return nil }

func TestPublishersBySignature(t *testing.T) {
	p := twoPublishers(t)
	body := []byte("<urlset/>")
	sign := func(secret string) string { return websub.SHA256.Sign(secret, body) }
	for _, tc := range []struct {
		why, header, topic, name string
		err                      error
	}{
		{"hers", sign("alice's"), "https://a.example/x", "alice", nil},
		{"by another method", websub.SHA512.Sign("alice's", body), "https://a.example/x", "alice", nil},
		{"his at hers", sign("bob's"), "https://a.example/x", "bob", ErrNotCovered},
		{"nobody's", sign("x"), "https://a.example/x", "", ErrUnknownCredential},
		{"over other bytes", websub.SHA256.Sign("alice's", []byte("x")), "https://a.example/x", "", ErrUnknownCredential},
		{"of an empty secret", sign(""), "https://c.example/x", "", ErrUnknownCredential},
		{"none", "", "https://a.example/x", "", ErrUnknownCredential},
		{"no signature at all", "sha256", "https://a.example/x", "", ErrUnknownCredential},
	} {
		got, err := p.BySignature(tc.header, body, tc.topic, unlimited)
		if got.Name != tc.name || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v; want %q, %v", tc.why, got.Name, err, tc.name, tc.err)
		}
	}
	// The search among those that can't publish anyway is bounded.
	large := bytes.Repeat([]byte("x"), foreignSignatureWork+1)
	if _, err := p.BySignature(websub.SHA256.Sign("bob's", large), large, "https://a.example/x", unlimited); !errors.Is(err, ErrUnknownCredential) {
		t.Errorf("a large body: %v", err)
	}
}

func TestPublishersAreReplacedWhileInUse(t *testing.T) {
	p := &Publishers{}
	if _, err := p.ByToken("bob", "https://b.example/x"); !errors.Is(err, ErrUnknownCredential) {
		t.Errorf("the zero Publishers: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				_, _ = p.ByToken("bob", "https://b.example/x")
				_, _ = p.BySignature("sha1=00", nil, "https://b.example/x", unlimited)
			}
		})
	}
	p.Replace(*twoPublishers(t).list.Load())
	wg.Wait()
	if got, err := p.ByToken("bob", "https://b.example/x"); err != nil || got.Name != "bob" {
		t.Errorf("%q, %v", got.Name, err)
	}
}

// A nil *Publishers and the zero one are empty.
func TestNoPublishers(t *testing.T) {
	for name, p := range map[string]*Publishers{"nil": nil, "zero": {}} {
		if _, err := p.ByToken("token", "https://example.org/"); !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("%s: a token: %v", name, err)
		}
		if _, err := p.BySignature("sha256=00", nil, "https://example.org/", nil); !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("%s: a signature: %v", name, err)
		}
	}
}
