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

// nameSecrets is a set of the forms in which secrets may be stored, so that a
// start need not look at each: formPlain, and the ids of keys in hexadecimal. A
// hub adds the form in which it stores them before it stores any. It takes one
// away that it has no key for and that it found nowhere; while it has the key,
// another hub may seal with it.
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

// lacksNoKey returns an error that wraps a *seal.KeyError for each key that
// secrets were sealed with and that is not there.
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

// reseal stores the secrets anew that are not stored as the keys would today, and
// returns the other keys that sealed some of them.
func (r *records) reseal(ctx context.Context) (used []seal.ID, resealed int, err error) {
	same := func(rec subscriptions.Record) (subscriptions.Record, error) { return rec, nil }
	err = r.eachPage(ctx, func(ids []uuid.UUID, values []stored) error {
		var writes []call
		var writing []uuid.UUID
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
			writes = append(writes, call{keys: r.replaceKeys(id), args: replaceArgs(id, values[i], next, "", nil)})
			writing = append(writing, id)
		}
		resealed += len(writing)
		for i, cmd := range r.conn.runAll(ctx, replaceScript, writes) {
			won, err := cmd.Bool()
			if err == nil && !won { // somebody changed it meanwhile
				_, err = r.Update(ctx, writing[i], same)
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

// sealedBy returns the keys of a record's secrets, and whether these are stored
// as the keys would store them today.
func (r *records) sealedBy(v stored) (ids []seal.ID, fresh bool) {
	return r.sealing.SealedBy(subscriptions.StoredSecrets([]byte(v.sub), []byte(v.request))...)
}

// eachPage hands fn all records, some of a shard at a time.
func (r *records) eachPage(ctx context.Context, fn func(ids []uuid.UUID, values []stored) error) error {
	for shard := range journal.Partitions {
		ids, err := r.idsIn(ctx, r.conn.key.records(shard).ids())
		if err != nil {
			return err
		}
		for page := range slices.Chunk(ids, readMax) {
			values, err := r.read(ctx, shard, page)
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
