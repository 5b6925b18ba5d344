package embedstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Get implements subscriptions.Registry.
func (r *records) Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	return read(ctx, r.folder, func(tx *boltfile.Tx) (subscriptions.Record, error) { return r.read(tx, keyOf(id)) })
}

// read returns a record; with an error, what can be read of it.
func (r *records) read(tx *boltfile.Tx, key []byte) (rec subscriptions.Record, err error) {
	rec.Subscription, err = r.readSubscription(tx, key)
	if v := tx.Bucket(bucketRequests).Get(key); v != nil {
		request, requestErr := subscriptions.UnpackRequest(v, r.keys)
		if requestErr == nil {
			rec.Request = &request
		}
		err = cmp.Or(err, requestErr)
	}
	if err != nil {
		err = fmt.Errorf("subscription %v: %w", uuid.UUID(key[1:]), err)
	}
	return rec, err
}

// readSubscription returns a subscription with its cursor; nil: there is none.
func (r *records) readSubscription(tx *boltfile.Tx, key []byte) (*subscriptions.Subscription, error) {
	v := tx.Bucket(bucketSubs).Get(key)
	if v == nil {
		return nil, nil
	}
	sub, err := subscriptions.UnpackSubscription(v, r.keys)
	if err != nil {
		return nil, err
	}
	if sub.Cursor, err = journal.UnpackCursor(tx.Bucket(bucketCursors).Get(key)); err != nil {
		return nil, err
	}
	return &sub, nil
}

// Update implements subscriptions.Registry. Change runs in the writer, so it must not call the store.
func (r *records) Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	key := keyOf(id)
	var stored subscriptions.Record
	o := &boltfile.Op{Finish: func(err error) {
		if boltfile.MayBeStored(err) {
			r.feeds[key[0]].bump(id)
		}
	}}
	o.Run = func(tx *boltfile.Tx) error {
		old, err := r.read(tx, key)
		if err != nil {
			return err
		}
		var rec subscriptions.Record
		if rec, o.Grows, err = old.Change(id, change); err != nil {
			return err
		}
		if o.Grows {
			if err := r.folder.room(0); err != nil {
				return err
			}
		}
		stored, err = r.write(tx, key, rec)
		return err
	}
	if err := r.folder.do(ctx, o); err != nil {
		return subscriptions.Record{}, err
	}
	return stored, nil
}

// write stores a record and returns a copy of what it stored.
func (r *records) write(tx *boltfile.Tx, key []byte, rec subscriptions.Record) (subscriptions.Record, error) {
	var err error
	if rec.Subscription == nil {
		for _, bucket := range [][]byte{bucketSubs, bucketCursors, bucketAttempts} {
			err = errors.Join(err, tx.Bucket(bucket).Delete(key))
		}
	} else {
		err = errors.Join(
			tx.Bucket(bucketSubs).Put(key, subscriptions.PackSubscription(*rec.Subscription, r.keys)),
			tx.Bucket(bucketCursors).Put(key, journal.PackCursor(rec.Subscription.Cursor)))
	}
	if rec.Request == nil {
		err = errors.Join(err, tx.Bucket(bucketRequests).Delete(key))
	} else {
		err = errors.Join(err, tx.Bucket(bucketRequests).Put(key, subscriptions.PackRequest(*rec.Request, r.keys)))
	}
	if err != nil {
		return subscriptions.Record{}, err
	}
	return r.read(tx, key)
}

// List implements subscriptions.Registry.
func (r *records) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	if err := journal.CheckPartition(shard); err != nil {
		return nil, err
	}
	return read(ctx, r.folder, func(tx *boltfile.Tx) (records []subscriptions.Record, err error) {
		err = eachRecord(tx, shard, afterKey(shard, after), func(key []byte) (bool, error) {
			if len(records) >= limit {
				return false, nil
			}
			rec, err := r.read(tx, key)
			if rec.Subscription != nil || rec.Request != nil {
				records = append(records, rec)
			}
			return true, leaveOut(r.unreadable, key, err)
		})
		return records, err
	})
}

// eachRecord calls fn with the keys of a shard's records, in order, from a key on, until it returns
// false. A record has a subscription, a request or both.
func eachRecord(tx *boltfile.Tx, shard int, from []byte, fn func(key []byte) (bool, error)) error {
	subs, requests := tx.Bucket(bucketSubs).Cursor(), tx.Bucket(bucketRequests).Cursor()
	prefix := prefixOf(shard)
	in := func(k, _ []byte) []byte { // k, unless it is another shard's
		if !bytes.HasPrefix(k, prefix) {
			return nil
		}
		return k
	}
	a, b := in(subs.Seek(from)), in(requests.Seek(from))
	for a != nil || b != nil {
		k := a
		if a == nil || b != nil && bytes.Compare(b, a) < 0 {
			k = b
		}
		if more, err := fn(k); err != nil || !more {
			return err
		}
		nextA, nextB := a != nil && bytes.Equal(a, k), b != nil && bytes.Equal(b, k)
		if nextA {
			a = in(subs.Next())
		}
		if nextB {
			b = in(requests.Next())
		}
	}
	return nil
}

// Changed implements subscriptions.Registry. After a start, or where since is
// over 16,384 records of the shard behind, it returns all that are stored.
func (r *records) Changed(ctx context.Context, shard int, since uint64) (ids []uuid.UUID, next uint64, err error) {
	if err := journal.CheckPartition(shard); err != nil {
		return nil, 0, err
	}
	ids, next, all := r.feeds[shard].since(since)
	if since == subscriptions.FromNow {
		return nil, next, ctx.Err()
	}
	if !all {
		return ids, next, ctx.Err()
	}
	seen := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids { // records that were deleted are among them
		seen[id] = true
	}
	err = r.folder.view(ctx, func(tx *boltfile.Tx) error {
		return eachRecord(tx, shard, prefixOf(shard), func(key []byte) (bool, error) {
			if id := uuid.UUID(key[1:]); !seen[id] {
				ids = append(ids, id)
			}
			return true, nil
		})
	})
	if err != nil {
		return nil, 0, err
	}
	return ids, next, nil
}

// Attempts implements subscriptions.History.
func (r *records) Attempts(ctx context.Context, id uuid.UUID) ([]subscriptions.Attempt, error) {
	return read(ctx, r.folder, func(tx *boltfile.Tx) ([]subscriptions.Attempt, error) { return readAttempts(tx, keyOf(id)) })
}

func readAttempts(tx *boltfile.Tx, key []byte) ([]subscriptions.Attempt, error) {
	v := tx.Bucket(bucketAttempts).Get(key)
	if v == nil {
		return nil, nil
	}
	return subscriptions.UnpackAttempts(v)
}
