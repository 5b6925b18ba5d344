package embedstore

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

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

// resealAll checks that the keys open every secret, and stores each one as the keys would store it
// today. Nothing else uses the database yet. The next start finishes what it could not.
func (r *records) resealAll(isNew bool) (found seal.Status, err error) {
	var was forms
	err = r.folder.db.View(func(tx *boltfile.Tx) (err error) {
		was, err = unpackForms(tx.Bucket(bucketMeta).Strict().Get(keySecrets))
		if err == nil {
			err = r.lacksNoKey(tx, was)
		}
		return err
	})
	if err != nil || r.reads {
		return found, err
	}
	next := forms{plain: r.keys == nil}
	if r.keys != nil {
		next.ids = r.keys.IDs()[:1]
		found.Key = &next.ids[0]
	}
	switch {
	case was.plain == next.plain && slices.Equal(was.ids, next.ids):
		return found, nil
	case isNew:
		return found, r.remember(next)
	}
	found.Retired = without(was.ids, next.ids)
	now := forms{plain: was.plain || next.plain, ids: slices.Concat(next.ids, found.Retired)}
	if err := r.remember(now); err != nil {
		return found, err
	}
	subs, err := reseal(r.folder.db, bucketSubs, r.keys, subscriptions.UnpackSubscription, subscriptions.PackSubscription,
		func(v []byte) [][]byte { return subscriptions.StoredSecrets(v, nil) })
	if err != nil {
		return found, err
	}
	requests, err := reseal(r.folder.db, bucketRequests, r.keys, subscriptions.UnpackRequest, subscriptions.PackRequest,
		func(v []byte) [][]byte { return subscriptions.StoredSecrets(nil, v) })
	if err == nil {
		err = r.folder.db.Wipe()
	}
	if err != nil {
		return found, err
	}
	found.Resealed = subs + requests
	return found, r.remember(next)
}

func (r *records) remember(f forms) error {
	return r.folder.db.Update(func(tx *boltfile.Tx) error { return tx.Bucket(bucketMeta).Put(keySecrets, f.pack()) })
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

// maxLacking is the number of subscriptions without a key at which counting stops.
const maxLacking = 100_000

// lacksNoKey returns an error that wraps a *seal.KeyError for each missing key with which secrets were
// sealed.
func (r *records) lacksNoKey(tx *boltfile.Tx, was forms) error {
	missing := without(was.ids, r.keys.IDs())
	if len(missing) == 0 {
		return nil
	}
	need, all := seal.Missing{}, 0
	for shard := range journal.Partitions {
		err := eachRecord(tx, shard, prefixOf(shard), func(key []byte) (bool, error) {
			ids, _ := r.keys.SealedBy(subscriptions.StoredSecrets(tx.Bucket(bucketSubs).Get(key), tx.Bucket(bucketRequests).Get(key))...)
			for _, id := range ids {
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
	return need.Err(all >= maxLacking)
}

// resealStep is how many secrets one transaction stores again.
const resealStep = 1000

// reseal stores again the secrets in a bucket that are not stored as keys would store them today. It
// returns their number.
func reseal[V any](db *boltfile.DB, bucket []byte, keys *seal.Keys, unpack func([]byte, subscriptions.Sealer) (V, error), pack func(V, subscriptions.Sealer) []byte, stored func([]byte) [][]byte) (n int, err error) {
	type pair struct{ key, value []byte }
	for from := []byte{}; from != nil && err == nil; {
		err = db.Update(func(tx *boltfile.Tx) error {
			var anew []pair // a write to the bucket would make the cursor invalid
			b := tx.Bucket(bucket)
			c := b.Cursor()
			k, v := c.Seek(from)
			for ; k != nil && len(anew) < resealStep; k, v = c.Next() {
				value, err := unpack(v, keys)
				if err != nil {
					return fmt.Errorf("subscription id %x: %w", k[1:], err)
				}
				if _, fresh := keys.SealedBy(stored(v)...); !fresh {
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
