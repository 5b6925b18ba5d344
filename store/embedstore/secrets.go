package embedstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// Secrets tells how a store keeps secrets.
type Secrets struct {
	// Key is the one that sealed all of them; nil: they are stored as they are.
	Key *seal.ID
	// Resealed is how many secrets were stored anew when the store was opened,
	// as they had been as they are, or sealed with another key.
	Resealed int
	// Retired are the keys that were needed until the store was opened, and are
	// not any more.
	Retired []seal.ID
}

// Secrets tells how the store keeps secrets since it was opened.
func (s *Store) Secrets() Secrets { return s.secrets }

// forms are those in which the secrets of a store may be stored. The store
// remembers them (keySecrets), so that a start need not look at each secret.
type forms struct {
	plain bool      // some may be stored as they are
	ids   []seal.ID // of keys that some may be sealed with
}

const formsVersion = 1

func (f forms) pack() []byte {
	p := journal.NewPacker(formsVersion)
	p.Bool(f.plain)
	p.Uint(uint64(len(f.ids)))
	for _, id := range f.ids {
		p.Text(string(id[:]))
	}
	return p.Packed()
}

// unpackForms reads what pack wrote. A store that remembers nothing is older
// than keys, or empty.
func unpackForms(b []byte) (f forms, err error) {
	if b == nil {
		return forms{plain: true}, nil
	}
	u := journal.NewUnpacker("the list of the keys of secrets", formsVersion, b)
	f.plain = u.Bool()
	for range u.Count() {
		var id seal.ID
		if text := u.Text(); copy(id[:], text) != len(id) || len(text) != len(id) {
			u.Fail("the id of a key has another length")
		}
		f.ids = append(f.ids, id)
	}
	return f, u.Done()
}

// settleSecrets sees to it that every secret can be opened, and that each is
// stored as the keys would store it today. Nobody else uses the database yet.
// What it did not finish the next start does.
func (s *Store) settleSecrets() error {
	var was forms
	err := s.db.View(func(tx *boltfile.Tx) (err error) {
		was, err = unpackForms(tx.Bucket(bucketMeta).Strict().Get(keySecrets))
		if err == nil {
			err = s.lacksNoKey(tx, was)
		}
		return err
	})
	if err != nil {
		return err
	}
	want := forms{plain: s.keys == nil}
	if s.keys != nil {
		want.ids = s.keys.IDs()[:1]
		s.secrets.Key = &want.ids[0]
	}
	switch {
	case was.plain == want.plain && slices.Equal(was.ids, want.ids):
		return nil
	case s.meta.isNew:
		return s.remember(want)
	}
	now := forms{plain: was.plain || want.plain, ids: slices.Concat(want.ids, without(was.ids, want.ids))}
	if err := s.remember(now); err != nil {
		return err
	}
	subs, err := reseal(s.db, bucketSubs, s.keys, subscriptions.UnpackSubscription, subscriptions.PackSubscription)
	if err != nil {
		return err
	}
	requests, err := reseal(s.db, bucketRequests, s.keys, subscriptions.UnpackRequest, subscriptions.PackRequest)
	if err != nil {
		return err
	}
	if err := s.db.Wipe(); err != nil {
		return err
	}
	s.secrets.Resealed, s.secrets.Retired = subs+requests, without(was.ids, want.ids)
	return s.remember(want)
}

func (s *Store) remember(f forms) error {
	return s.db.Update(func(tx *boltfile.Tx) error { return tx.Bucket(bucketMeta).Put(keySecrets, f.pack()) })
}

// without returns those of ids that are not among others.
func without(ids, others []seal.ID) (out []seal.ID) {
	for _, id := range ids {
		if !slices.Contains(others, id) {
			out = append(out, id)
		}
	}
	return out
}

// maxLacking is up to how many subscriptions are counted that lack a key.
const maxLacking = 100_000

// lacksNoKey returns an error that wraps a *seal.KeyError for each key that
// secrets were sealed with and that is not there.
func (s *Store) lacksNoKey(tx *boltfile.Tx, was forms) error {
	missing := without(was.ids, s.keys.IDs())
	if len(missing) == 0 {
		return nil
	}
	need, all := map[seal.ID]int{}, 0
	for shard := range journal.Partitions {
		err := eachRecord(tx, shard, prefixOf(shard), func(key []byte) (bool, error) {
			for _, id := range sealedBy(tx, key) {
				if slices.Contains(missing, id) {
					need[id]++
					all++
					break
				}
			}
			return all < maxLacking, nil
		})
		if err != nil {
			return err
		}
	}
	var errs []error
	for _, id := range missing {
		if n := need[id]; n > 0 {
			count := fmt.Sprintf("%d subscriptions have", n)
			switch {
			case n == 1:
				count = "1 subscription has"
			case all >= maxLacking:
				count = fmt.Sprintf("at least %d subscriptions have", n)
			}
			errs = append(errs, fmt.Errorf("%s a secret that can't be read: %w; nothing was changed", count, &seal.KeyError{ID: id}))
		}
	}
	return errors.Join(errs...)
}

// sealedBy returns the keys of a record's secrets.
func sealedBy(tx *boltfile.Tx, key []byte) (ids []seal.ID) {
	var sub, request onlooker // which need not open them
	_, _ = subscriptions.UnpackSubscription(tx.Bucket(bucketSubs).Get(key), &sub)
	_, _ = subscriptions.UnpackRequest(tx.Bucket(bucketRequests).Get(key), &request)
	for _, stored := range [][]byte{sub.stored, request.stored} {
		if id, ok := seal.SealedBy(stored); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// onlooker opens with its keys, and keeps the stored form of what it opened.
type onlooker struct {
	*seal.Keys
	stored []byte
}

// Open implements subscriptions.Sealer.
func (o *onlooker) Open(stored []byte, about string) (string, error) {
	o.stored = stored
	return o.Keys.Open(stored, about)
}

// resealStep is how many secrets one transaction stores anew.
const resealStep = 1000

// reseal stores the secrets in a bucket anew that are not stored as keys would
// today, and returns how many those were.
func reseal[V any](db *boltfile.DB, bucket []byte, keys *seal.Keys, unpack func([]byte, subscriptions.Sealer) (V, error), pack func(V, subscriptions.Sealer) []byte) (n int, err error) {
	type pair struct{ key, value []byte }
	for from := []byte{}; from != nil && err == nil; {
		err = db.Update(func(tx *boltfile.Tx) error {
			var anew []pair // the cursor of a bucket bears no writes to it
			b := tx.Bucket(bucket)
			c := b.Cursor()
			k, v := c.Seek(from)
			for ; k != nil && len(anew) < resealStep; k, v = c.Next() {
				looks := &onlooker{Keys: keys}
				value, err := unpack(v, looks)
				if err != nil {
					return fmt.Errorf("subscription id %x: %w", k[1:], err)
				}
				if !keys.Fresh(looks.stored) {
					anew = append(anew, pair{bytes.Clone(k), pack(value, keys)})
				}
			}
			from = bytes.Clone(k)
			for _, p := range anew {
				if err := b.Put(p.key, p.value); err != nil {
					return err
				}
			}
			n += len(anew)
			return nil
		})
	}
	return n, err
}
