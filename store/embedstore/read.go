package embedstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/journal"
)

// Where the body of an entry is: the first byte of its value.
const (
	bodyInline = 1 // behind the entry
	bodyFile   = 2 // in a file of its own
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
func (s *Store) Find(ctx context.Context, id uuid.UUID) (topic string, e journal.Entry, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		at := tx.Bucket(bucketIDs).Get(id[:])
		if at == nil {
			return journal.ErrNotFound
		}
		h, err := readHead(tx, at[:len(at)-8], "")
		if err != nil {
			return err
		}
		topic = h.Topic
		e, _, _, err = openEntry(tx.Bucket(bucketEntries).Get(at))
		return err
	})
	if err != nil {
		return "", journal.Entry{}, err
	}
	return topic, e, nil
}

// Read implements journal.Reader.
func (s *Store) Read(ctx context.Context, topic string, after journal.Anchor, max int, maxBytes int64) ([]journal.Entry, error) {
	var out []journal.Entry
	var files []int // those in out whose body is in a file, and fits
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		key := keyOf(journal.TopicID(topic))
		if err := checkAnchor(tx, key, topic, after); err != nil || max <= 0 {
			return err
		}
		return scan(tx.Bucket(bucketEntries), key, positionKey(key, after.Position+1), func(_, v []byte) (bool, error) {
			e, inline, inFile, err := openEntry(v)
			if err != nil {
				return false, err
			}
			if maxBytes -= e.Size; maxBytes < 0 {
				maxBytes = -1 // nor do the bodies after this one
			} else if inFile {
				files = append(files, len(out))
			} else {
				e.Body = append([]byte{}, inline...)
			}
			out = append(out, e)
			return len(out) < max, nil
		})
	})
	if err != nil {
		return nil, err
	}
	for _, i := range files {
		body, err := s.bodies.read(out[i])
		if errors.Is(err, journal.ErrNotFound) {
			// Trimmed a moment ago: Body says so, of this one and the next.
			for ; i < len(out); i++ {
				out[i].Body = nil
			}
			break
		}
		if err != nil {
			return nil, err
		}
		out[i].Body = body
	}
	return out, nil
}

// checkAnchor is invariant 5: the journal still has the entry at the anchor, or
// trimmed it, or it was rolled back.
func checkAnchor(tx *bbolt.Tx, key []byte, topic string, after journal.Anchor) error {
	h, err := readHead(tx, key, topic)
	if err != nil {
		return err
	}
	switch {
	case after.Position < h.Trimmed.Position:
		return &journal.TrimmedError{To: h.Trimmed}
	case after.Position == 0:
		return nil // before the first entry
	case after.Position == h.Trimmed.Position:
		if after.Nonce != h.Trimmed.Nonce {
			return journal.ErrRolledBack
		}
		return nil
	}
	v := tx.Bucket(bucketEntries).Get(positionKey(key, after.Position))
	if v == nil {
		return journal.ErrRolledBack
	}
	e, _, _, err := openEntry(v)
	if err != nil {
		return err
	}
	if e.Nonce != after.Nonce {
		return journal.ErrRolledBack
	}
	return nil
}

// Body implements journal.Reader.
func (s *Store) Body(ctx context.Context, topic string, e journal.Entry) (body []byte, err error) {
	var stored journal.Entry
	var inFile bool
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketEntries).Get(positionKey(keyOf(journal.TopicID(topic)), e.Position))
		if v == nil {
			return journal.ErrNotFound
		}
		var inline []byte
		if stored, inline, inFile, err = openEntry(v); err != nil {
			return err
		}
		if stored.Nonce != e.Nonce {
			return journal.ErrNotFound
		}
		if !inFile {
			body = append([]byte{}, inline...)
		}
		return nil
	})
	if err != nil || !inFile {
		return body, err
	}
	body, err = s.bodies.read(stored)
	if errors.Is(err, journal.ErrNotFound) {
		// Trimmed since, or else the file was taken from the folder.
		if _, _, findErr := s.Find(ctx, stored.ID); findErr == nil {
			return nil, fmt.Errorf("the body of notification %s is missing: there is no file %s", stored.ID, s.bodies.path(stored.ID))
		}
	}
	return body, err
}

// Topics implements journal.Trimmer.
func (s *Store) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) (heads []journal.Head, err error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		return scan(tx.Bucket(bucketHeads), prefixOf(partition), afterKey(partition, after), func(k, v []byte) (bool, error) {
			h, err := openHead(k, v)
			heads = append(heads, h.Head)
			return len(heads) < limit, err
		})
	})
	if err != nil {
		return nil, err
	}
	return heads, nil
}

// trimStep is how many entries one transaction of Trim takes.
const trimStep = 1024

// Trim implements journal.Trimmer. It works in steps, so that a large trim does
// not hold up what is appended meanwhile.
func (s *Store) Trim(ctx context.Context, topic string, cut journal.Cut) (journal.Head, error) {
	key := keyOf(journal.TopicID(topic))
	for {
		var h headRecord
		var files []uuid.UUID
		var more bool
		err := s.do(ctx, &op{
			run: func(tx *bbolt.Tx) (err error) {
				h, files, more, err = trim(tx, key, topic, cut)
				return err
			},
			finish: func(err error) {
				if err == nil && len(files) > 0 {
					s.cleanup.Go(func() { s.bodies.remove(files...) })
				}
			},
		})
		if err != nil {
			return journal.Head{}, err
		}
		if !more {
			return h.Head, nil
		}
	}
}

// trim takes up to trimStep entries away. It returns the head after that, the
// ids of the bodies in files, and whether there is more to take.
func trim(tx *bbolt.Tx, key []byte, topic string, cut journal.Cut) (h headRecord, files []uuid.UUID, more bool, err error) {
	if h, err = readHead(tx, key, topic); err != nil {
		return h, nil, false, err
	}
	entries, ids := tx.Bucket(bucketEntries), tx.Bucket(bucketIDs)
	var keys [][]byte
	var gone []uuid.UUID
	err = scan(entries, key, key, func(k, v []byte) (bool, error) {
		e, _, inFile, err := openEntry(v)
		if err != nil {
			return false, err
		}
		old := e.ReceivedAt.Before(cut.Before) // never before the zero time
		over := cut.KeepBytes >= 0 && h.Bytes > cut.KeepBytes
		if !old && !over {
			return false, nil
		}
		if more = len(keys) == trimStep; more {
			return false, nil
		}
		keys, gone = append(keys, bytes.Clone(k)), append(gone, e.ID)
		if inFile {
			files = append(files, e.ID)
		}
		h.Trimmed = e.Anchor()
		h.Entries--
		h.Bytes -= e.Size
		return true, nil
	})
	if err == nil && len(keys) == 0 {
		err = errUnchanged
	}
	if err != nil {
		return h, nil, false, err
	}
	for i, k := range keys {
		if err := errors.Join(del(entries, k), del(ids, gone[i][:])); err != nil {
			return h, nil, false, err
		}
	}
	return h, files, more, writeHead(tx, key, h)
}
