package embedstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// Where the body of an entry is: the first byte of its value.
const (
	bodyInline = 1 // after the entry
	bodyFile   = 2 // in a separate file
)

// entryValue is what is stored of an entry: where its body is, the length of
// the packed entry, the packed entry, and the body if it is inline.
func entryValue(e journal.Entry, inline []byte) []byte {
	packed := journal.PackEntry(e)
	where := byte(bodyInline)
	if e.Size > inlineMax {
		where = bodyFile
	}
	v := make([]byte, 0, 1+binary.MaxVarintLen32+len(packed)+len(inline))
	v = binary.AppendUvarint(append(v, where), uint64(len(packed)))
	return append(append(v, packed...), inline...)
}

// openEntry reads such a value. The inline body is not copied.
func openEntry(v []byte) (e journal.Entry, inline []byte, inFile bool, err error) {
	bad := fmt.Errorf("%w: an entry", journal.ErrPacked)
	if len(v) < 2 || v[0] != bodyInline && v[0] != bodyFile {
		return e, nil, false, bad
	}
	n, width := binary.Uvarint(v[1:])
	rest := v[1+max(width, 0):]
	if width <= 0 || n > uint64(len(rest)) {
		return e, nil, false, bad
	}
	e, err = journal.UnpackEntry(rest[:n])
	return e, rest[n:], v[0] == bodyFile, err
}

// Find implements journal.Reader.
func (t *topics) Find(ctx context.Context, id uuid.UUID) (topic string, e journal.Entry, err error) {
	err = t.folder.view(ctx, func(tx *boltfile.Tx) error {
		at := tx.Bucket(bucketIDs).Get(id[:])
		if at == nil {
			return journal.ErrNotFound
		}
		if len(at) <= 8 {
			return &journal.DamagedError{ID: id, Why: fmt.Errorf("%w: the place of a notification", journal.ErrPacked)}
		}
		h, err := readHead(tx, at[:len(at)-8], "")
		if err != nil {
			return err
		}
		topic = h.Topic
		v := tx.Bucket(bucketEntries).Get(at)
		switch {
		case v == nil && positionOf(at) <= h.Trimmed.Position:
			return journal.ErrNotFound // a damaged entry: Trim did not know its id
		case v == nil:
			return &journal.DamagedError{At: journal.Anchor{Position: positionOf(at)}, ID: id, Why: journal.ErrMissing}
		}
		if e, _, _, err = entryAt(at, v); journal.Unreadable(err) {
			err = damagedAt(tx, at[:len(at)-8], h.Head, at, 0, err)
		}
		return err
	})
	if err != nil {
		return "", journal.Entry{}, err
	}
	return topic, e, nil
}

// Read implements journal.Reader.
func (t *topics) Read(ctx context.Context, topic string, after journal.Anchor, max int, maxBytes int64) ([]journal.Entry, error) {
	var out []journal.Entry
	files := make(map[int]bool) // those in out whose body is in a file and within maxBytes
	err := t.folder.view(ctx, func(tx *boltfile.Tx) error {
		key := keyOf(journal.TopicID(topic))
		h, err := checkAnchor(tx, key, topic, after)
		if err != nil || max <= 0 {
			return err
		}
		from, last := positionKey(key, after.Position+1), after
		err = scan(tx.Bucket(bucketEntries), key, from, func(k, v []byte) (bool, error) {
			e, inline, inFile, err := entryAt(k, v)
			if journal.Unreadable(err) {
				err = damagedAt(tx, key, h.Head, k, last.Seq, err)
			} else if err == nil && e.Misses(last) {
				err = &journal.DamagedError{At: e.Predecessor(), Why: journal.ErrMissing}
			}
			if err != nil {
				return false, err
			}
			if maxBytes -= e.Size; maxBytes < 0 {
				maxBytes = -1 // nor do the bodies after this one fit
			} else if inFile {
				files[len(out)] = true
			} else {
				e.Body = append([]byte{}, inline...)
			}
			out, last = append(out, e), e.Anchor()
			return len(out) < max, nil
		})
		switch {
		case len(out) > 0:
			return nil // return what was read; the next Read returns the error
		case err == nil:
			err = h.MissingNewest(after)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.withBodies(ctx, out, files)
}

// withBodies adds the bodies in files to entries, and checks all bodies. It returns the entries before
// the first damaged body; if there are none, the error.
func (t *topics) withBodies(ctx context.Context, out []journal.Entry, files map[int]bool) ([]journal.Entry, error) {
	for i := range out {
		var err error
		switch {
		case files[i]:
			out[i].Body, err = t.fileBody(ctx, out[i])
		case out[i].Body != nil:
			err = out[i].Check(out[i].Body)
		}
		switch {
		case err == nil:
		case errors.Is(err, journal.ErrNotFound):
			// It was trimmed a moment ago. Body reports that for this entry and the next ones.
			for ; i < len(out); i++ {
				out[i].Body = nil
			}
			return out, nil
		case i > 0:
			return out[:i], nil
		default:
			return nil, err
		}
	}
	return out, nil
}

// checkAnchor is invariant 5: the journal still has the entry at the anchor, or trimmed it, or was
// rolled back. It returns the head of the topic. The nonce of a damaged entry is unknown, so only its
// position counts.
func checkAnchor(tx *boltfile.Tx, key []byte, topic string, after journal.Anchor) (headRecord, error) {
	h, err := readHead(tx, key, topic)
	if err != nil {
		return h, err
	}
	switch {
	case after.Position < h.Trimmed.Position:
		return h, h.TrimmedAfter(after)
	case after.Position == 0, after.Nonce == 0 && after.Position <= h.Last.Position:
		return h, nil // before the first entry, or at one that is damaged
	case after.Position == h.Trimmed.Position:
		if h.Trimmed.Nonce != 0 && after.Nonce != h.Trimmed.Nonce {
			return h, journal.ErrRolledBack
		}
		return h, nil
	}
	k := positionKey(key, after.Position)
	v := tx.Bucket(bucketEntries).Get(k)
	if v == nil {
		return h, journal.ErrRolledBack
	}
	if e, _, _, err := entryAt(k, v); err == nil && e.Nonce != after.Nonce {
		return h, journal.ErrRolledBack
	}
	return h, nil
}

// Body implements journal.Reader.
func (t *topics) Body(ctx context.Context, topic string, e journal.Entry) (body []byte, err error) {
	var stored journal.Entry
	var inFile bool
	err = t.folder.view(ctx, func(tx *boltfile.Tx) error {
		key := keyOf(journal.TopicID(topic))
		k := positionKey(key, e.Position)
		v := tx.Bucket(bucketEntries).Get(k)
		if v == nil {
			return journal.ErrNotFound
		}
		var inline []byte
		stored, inline, inFile, err = entryAt(k, v)
		switch {
		case journal.Unreadable(err):
			return e.Damaged(err)
		case err != nil:
			return err
		case stored.Nonce != e.Nonce:
			return journal.ErrNotFound
		}
		if !inFile {
			body = append([]byte{}, inline...)
			return stored.Check(body)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if inFile {
		return t.fileBody(ctx, stored)
	}
	return body, nil
}

// Topics implements journal.Trimmer.
func (t *topics) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error) {
	return list(ctx, t.folder, bucketHeads, partition, after, limit, func(k, v []byte) (journal.Head, error) {
		h, err := openHead(k, v)
		return h.Head, err
	})
}
