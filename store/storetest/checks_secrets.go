package storetest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// Sealing is what the checks need of a store that seals secrets.
type Sealing struct {
	// Reopen closes the store and opens it with other keys; nil: without. After
	// an error it may be called again.
	Reopen func(keys *seal.Keys) (Store, error)
	// Stored returns all bytes that the store has written, as a thief of its disk would find
	// them. It may close the store.
	Stored func() ([]byte, error)
}

// Keys of the checks. twoKeys seal with the second key and still open what the first one sealed.
var (
	oneKey  = newKeys(1)
	twoKeys = newKeys(2, 1)
	newKey  = newKeys(2)
)

func newKeys(of ...byte) *seal.Keys {
	var secrets [][32]byte
	for _, b := range of {
		secrets = append(secrets, [32]byte{b})
	}
	keys, err := seal.New(secrets...)
	if err != nil {
		panic(err) // the keys above are right
	}
	return keys
}

// The secrets of the subscription and of the request in the checks.
const (
	subscriberSecret = "the secret of a subscription"
	requestSecret    = "the secret that a request brings"
)

// reopenWith opens the store with other keys.
func (k *kit) reopenWith(keys *seal.Keys) {
	k.Helper()
	s := call(k.h.Sealing.Reopen(keys)).must(k, "Reopen with other keys")
	k.h.Store = s
}

// setSecret stores a subscription and a request with secrets.
func (k *kit) setSecret(i int) subscriptions.Record {
	k.Helper()
	s := subscription(i)
	s.Secret = subscriberSecret
	r := request(s)
	r.Secret = requestSecret
	return k.set(s.ID, subscriptions.Record{Subscription: &s, Request: r})
}

// sealed checks that no secret can be read from what is stored.
func (k *kit) sealed(when string) {
	k.Helper()
	stored := call(k.h.Sealing.Stored()).must(k, "Stored")
	if !bytes.Contains(stored, []byte(subscription(1).Callback)) {
		k.Fatalf("%s: the stored bytes lack the callback of a subscription", when)
	}
	for _, secret := range []string{subscriberSecret, requestSecret} {
		for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))} {
			k.expect(!bytes.Contains(stored, []byte(form)), "%s: %q can be read in what is stored", when, form)
		}
	}
}

var secretChecks = []Check{
	{"SecretsAreSealed", func(k *kit) {
		k.reopenWith(oneKey)
		rec := k.setSecret(1)
		k.same("the record", k.get(rec.Subscription.ID), rec)
		k.sealed("written")
		// Whatever writes a record again seals it again.
		c := rec.Subscription.Cursor
		c.Attempt = 1
		gap := journal.Gap{From: at(1), Until: at(2), Count: 1, Reason: journal.GapGaveUp, At: at(3)}
		k.commit(subscriptions.Commit{ID: rec.Subscription.ID, Cursor: c, Gaps: []journal.Gap{gap}})
		k.sealed("a gap was committed")
		rec.Subscription.Cursor, rec.Subscription.Gaps = c, []journal.Gap{gap}
		k.reopenWith(oneKey)
		k.same("the record", k.get(rec.Subscription.ID), rec)
		k.sealed("opened again")
	}},
	{"PlainSecretsAreSealedOnceThereIsAKey", func(k *kit) {
		rec := k.setSecret(1)
		k.reopenWith(oneKey)
		k.same("the record", k.get(rec.Subscription.ID), rec)
		k.sealed("opened with a key")
		k.setSecret(2)
		k.sealed("written")
	}},
	{"SealKeyIsChanged", func(k *kit) {
		k.reopenWith(oneKey)
		rec := k.setSecret(1)
		k.reopenWith(twoKeys)
		k.same("the record", k.get(rec.Subscription.ID), rec)
		k.reopenWith(newKey)
		k.same("without the old key the record", k.get(rec.Subscription.ID), rec)
		k.sealed("the key was changed")
	}},
	{"MissingSealKeyIsRefused", func(k *kit) {
		k.reopenWith(oneKey)
		rec := k.setSecret(1)
		for name, keys := range map[string]*seal.Keys{"no key": nil, "another key": newKey} {
			s, err := k.h.Sealing.Reopen(keys)
			missing := (*seal.KeyError)(nil)
			k.expect(errors.As(err, &missing) && missing.ID == oneKey.IDs()[0], "%s: %v, want a *seal.KeyError", name, err)
			if err == nil {
				k.h.Store = s
			}
		}
		k.reopenWith(oneKey)
		k.same("the record", k.get(rec.Subscription.ID), rec)
	}},
}
