package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

const (
	// nameKept is how long the name of a request is remembered.
	nameKept = 72 * time.Hour
	// defaultNames is how many names are remembered. Each needs some 200 bytes.
	defaultNames = 1_000_000
	// namesForgotten is how many old names one announcement removes: more than it can add.
	namesForgotten = 2
)

// The keys of names in bucketMeta: a name -> its receipt, and a number that rises -> the name, so
// that the oldest are found.
var (
	namePrefix   = []byte("name/")
	numberPrefix = []byte("names/")
)

func nameKey(name string) []byte { return append(bytes.Clone(namePrefix), name...) }

func numberKey(n uint64) []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(numberPrefix), n)
}

// named is what is remembered of a request under its name.
type named struct {
	sum     [32]byte
	number  uint64
	last    uint64
	at      int64 // microseconds since 1970
	changes int
}

func (n *named) receipt() Receipt {
	return Receipt{Last: n.last, At: time.UnixMicro(n.at).UTC(), Changes: n.changes, Repeated: true}
}

func (n *named) pack() []byte {
	b := append([]byte{packPlain}, n.sum[:]...)
	b = binary.AppendUvarint(binary.AppendUvarint(b, n.number), n.last)
	return binary.AppendUvarint(binary.AppendVarint(b, n.at), uint64(n.changes)) //nolint:gosec // never negative
}

func unpackNamed(v []byte) (n named, err error) {
	u := unpack(v)
	copy(n.sum[:], u.next(uint64(len(n.sum))))
	n.number, n.last, n.at, n.changes = u.uvarint(), u.uvarint(), u.varint(), int(u.uvarint()) //nolint:gosec // an int when it was written
	return n, u.done("name")
}

// keyAnnounced is in bucketMeta if the changes are announced, and the index has only their log.
var keyAnnounced = []byte("announced")

// errOrigin is the error of a state that was made for another kind of set.
var errOrigin = errors.New("this state was made for a set of another kind (a folder or a catalogue, or rspub relay); choose another folder for state")

// beginAnnounced makes a new index one whose changes are announced.
func (x *Index) beginAnnounced(now time.Time) error {
	err := x.write(now, func(b *batch) error {
		meta := b.tx.Bucket(bucketMeta)
		switch known := meta.Get(keyAnnounced) != nil; {
		case known:
			return nil
		case b.head.ready || b.head.count > 0:
			return errOrigin
		}
		return meta.Put(keyAnnounced, []byte{packPlain})
	})
	if err == nil {
		err = x.baseline(now)
	}
	return err
}

// isAnnounced returns an error if the changes of the index are announced.
func (x *Index) isAnnounced() error {
	return x.view(func(tx *boltfile.Tx) error {
		if tx.Bucket(bucketMeta).Get(keyAnnounced) != nil {
			return errOrigin
		}
		return nil
	})
}

// announce logs what was announced, and remembers the names of the announcements in the same
// transaction. With an error of full it only answers those that it remembers. It does not store the resources: the index has only the log, because nobody knows
// the resources that were never announced.
func (x *Index) announce(now time.Time, all []Announcement, full error) (receipts []Receipt, err error) {
	checker := newEntryCheck()
	for i := range all {
		for j := range all[i].Changes {
			g := &all[i].Changes[j]
			if err := checker.check(g); err != nil {
				return nil, err
			}
			if g.Change == "" {
				return nil, fmt.Errorf("%w: an announced change of %q has no Change, and the index has nothing to compare it with", ErrGiven, g.Resource.Key())
			}
		}
	}
	err = x.write(now, func(b *batch) error {
		receipts = make([]Receipt, len(all))
		for i := range all {
			if receipts[i], err = b.announce(&all[i], x.mostNames, full); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return receipts, nil
}

func (b *batch) announce(a *Announcement, mostNames uint64, full error) (Receipt, error) {
	if r, known, err := b.recall(a, mostNames); known || err != nil {
		return r, err
	}
	if full != nil {
		return Receipt{Err: full}, nil
	}
	for i := range a.Changes {
		g := &a.Changes[i]
		r := &record{Resource: keyed(g.Resource.Key())}
		if s := g.step(); s.now != nil {
			r = s.now
		}
		if err := b.raise(&r.Resource); err != nil {
			return Receipt{}, err
		}
		if err := b.log(g.Change, r); err != nil {
			return Receipt{}, err
		}
	}
	last := b.head.last
	n := named{sum: a.Sum, last: last.seq, at: last.at, changes: len(a.Changes)}
	r := n.receipt()
	r.Repeated = false
	if a.Name == "" {
		return r, nil
	}
	return r, b.remembered(a.Name, n)
}

// recall returns the receipt of an announcement that records nothing: its name is known, or too
// many are.
func (b *batch) recall(a *Announcement, mostNames uint64) (r Receipt, known bool, err error) {
	if a.Name == "" {
		return r, false, nil
	}
	if err := b.forget(); err != nil {
		return r, false, err
	}
	meta := b.tx.Bucket(bucketMeta)
	v := meta.Get(nameKey(a.Name))
	if v == nil {
		first, ok := oldestName(b.tx)
		if ok && meta.Sequence()-first+1 >= mostNames {
			return Receipt{Err: ErrManyNames}, true, nil
		}
		return r, false, nil
	}
	n, err := unpackNamed(v)
	switch {
	case err != nil:
		return r, false, err
	case b.tooOld(&n):
		return r, false, meta.Delete(numberKey(n.number)) // remembered replaces the rest
	case n.sum != a.Sum:
		return Receipt{Err: ErrNameUsed}, true, nil
	}
	return n.receipt(), true, nil
}

func (b *batch) remembered(name string, n named) (err error) {
	meta := b.tx.Bucket(bucketMeta)
	if n.number, err = meta.NextSequence(); err != nil {
		return err
	}
	if err := meta.Put(numberKey(n.number), []byte(name)); err != nil {
		return err
	}
	return meta.Put(nameKey(name), n.pack())
}

func (b *batch) tooOld(n *named) bool { return b.now-n.at > nameKept.Microseconds() }

// forget removes some names that are too old.
func (b *batch) forget() error {
	meta := b.tx.Bucket(bucketMeta)
	for range namesForgotten {
		k, name := meta.Cursor().Seek(numberPrefix)
		if !bytes.HasPrefix(k, numberPrefix) {
			return nil
		}
		n, err := unpackNamed(meta.Get(nameKey(string(name))))
		if err != nil {
			return err
		}
		if !b.tooOld(&n) {
			return nil
		}
		k, name = bytes.Clone(k), bytes.Clone(name)
		if err := meta.Delete(k); err != nil {
			return err
		}
		if err := meta.Delete(nameKey(string(name))); err != nil {
			return err
		}
	}
	return nil
}

// oldestName returns the number of the oldest name.
func oldestName(tx *boltfile.Tx) (number uint64, ok bool) {
	k, _ := tx.Bucket(bucketMeta).Cursor().Seek(numberPrefix)
	if !bytes.HasPrefix(k, numberPrefix) {
		return 0, false
	}
	return binary.BigEndian.Uint64(k[len(numberPrefix):]), true
}
