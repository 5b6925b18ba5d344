package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// nameSecrets is a set of the forms in which secrets may be stored, so that a start need not
// check each secret: formPlain, and the ids of keys in hexadecimal. A hub adds its form
// before it stores a secret. It removes a form that no secret has any more, unless it has
// the key: then another hub may still seal with that key.
const nameSecrets = "secrets"

const formPlain = "plain"

// formScript adds a form. A start on a full Redis does it too.
//
//	KEYS    1 the set of the forms
//	ARGV    1 form
//	returns 1; 0: it was there
var formScript = newScript(bounded, `return redis.call('SADD', KEYS[1], ARGV[1])`)

// resealAll makes sure that every secret can be opened, and stores those again that the
// keys would store differently today. If a key is missing it changes nothing and returns an
// error that wraps a *seal.KeyError. The next start finishes what it could not.
func (r *records) resealAll(ctx context.Context) (found seal.Status, err error) {
	if r.reads {
		return found, r.lacksNoKey(ctx)
	}
	mine := formPlain
	if r.sealing != nil {
		found.Key = &r.sealing.IDs()[0]
		mine = found.Key.String()
	}
	name := r.conn.key.meta(nameSecrets)
	was, err := r.conn.client.SMembers(ctx, name).Result()
	if err != nil || len(was) == 1 && was[0] == mine {
		return found, err
	}
	if err := r.lacksNoKey(ctx); err != nil {
		return found, err
	}
	if err := r.conn.run(ctx, formScript, []string{name}, mine).Err(); err != nil {
		return found, err
	}
	used, resealed, err := r.reseal(ctx)
	if err != nil {
		return found, err
	}
	found.Resealed = resealed
	found.Retired = slices.DeleteFunc(used, func(id seal.ID) bool { return id.String() == mine })
	var gone []any
	for _, form := range was {
		if form != mine && !slices.ContainsFunc(r.sealing.IDs(), func(id seal.ID) bool { return id.String() == form }) {
			gone = append(gone, form)
		}
	}
	if len(gone) == 0 {
		return found, nil
	}
	return found, r.conn.client.SRem(ctx, name, gone...).Err()
}

// lacksNoKey returns an error that wraps a *seal.KeyError for each missing key that secrets
// were sealed with.
func (r *records) lacksNoKey(ctx context.Context) error {
	missing := seal.Missing{}
	err := r.eachPage(ctx, func(_ []uuid.UUID, values []stored) error {
		for _, v := range values {
			ids, _ := r.sealedBy(v)
			for _, id := range ids {
				if !slices.Contains(r.sealing.IDs(), id) {
					missing[id]++
				}
			}
		}
		return nil
	})
	return errors.Join(err, missing.Err(false))
}

// reseal stores again the secrets that the keys would store differently today. It returns the
// keys that these secrets were sealed with, and how many records it stored.
func (r *records) reseal(ctx context.Context) (used []seal.ID, resealed int, err error) {
	same := func(rec subscriptions.Record) (subscriptions.Record, error) { return rec, nil }
	err = r.eachPage(ctx, func(ids []uuid.UUID, values []stored) error {
		var writes []write
		for i, id := range ids {
			by, fresh := r.sealedBy(values[i])
			if fresh {
				continue
			}
			next, _, err := r.changed(id, values[i], same)
			if err != nil {
				return err
			}
			used = append(used, by...)
			writes = append(writes, write{id, r.replaceCall(id, values[i], next, "", nil)})
		}
		resealed += len(writes)
		for w, cmd := range runEach(ctx, r.conn, replaceScript, writes, describeWrite) {
			won, err := cmd.Bool()
			if err == nil && !won { // another hub changed it meanwhile
				_, err = r.Update(ctx, w.id, same)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(used, func(a, b seal.ID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(used), resealed, err
}

// sealedBy returns the keys of a record's secrets, and whether the secrets are stored as the
// keys would store them today.
func (r *records) sealedBy(v stored) (ids []seal.ID, fresh bool) {
	return r.sealing.SealedBy(subscriptions.StoredSecrets([]byte(v[storedSub]), []byte(v[storedRequest]))...)
}

// eachPage calls fn with all records, a page of one shard at a time.
func (r *records) eachPage(ctx context.Context, fn func(ids []uuid.UUID, values []stored) error) error {
	for shard := range journal.Partitions {
		k := r.conn.key.records(shard)
		ids, err := r.conn.ids(ctx, k.ids())
		if err != nil {
			return err
		}
		for page := range slices.Chunk(ids, readMax) {
			values, err := r.conn.read(ctx, k.values(), page)
			if err == nil {
				err = fn(page, values)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
