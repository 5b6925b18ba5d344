package embedstore

import (
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
)

// Check reads the whole folder and names each thing that is damaged in it.
func TestCheck(t *testing.T) {
	const large = inlineMax + 1
	other := topic + "other"
	for name, tc := range map[string]struct {
		damage func(s *Store, entries []journal.Entry) error
		want   []string // what Check reports
	}{
		"nothing": {damage: func(*Store, []journal.Entry) error { return nil }},
		"a small body": {
			damage: func(s *Store, e []journal.Entry) error { return damage(s, topic, e[0], storetest.DamagedBody) },
			want:   []string{"the journal of " + topic},
		},
		"a missing large body": {
			damage: func(s *Store, e []journal.Entry) error { return damage(s, topic, e[1], storetest.MissingBody) },
			want:   []string{"the journal of " + topic},
		},
		"an entry": {
			damage: func(s *Store, e []journal.Entry) error { return damage(s, topic, e[1], storetest.DamagedEntry) },
			want:   []string{"the journal of " + topic},
		},
		"a missing entry": {
			damage: func(s *Store, e []journal.Entry) error { return damage(s, topic, e[0], storetest.MissingEntry) },
			want:   []string{"the journal of " + topic},
		},
		"the newest entry is missing": {
			damage: func(s *Store, e []journal.Entry) error { return damage(s, topic, e[2], storetest.MissingEntry) },
			want:   []string{"the journal of " + topic},
		},
		"a head": {
			damage: func(s *Store, _ []journal.Entry) error {
				return putRaw(s, bucketHeads, keyOf(journal.TopicID(other)), []byte{1, 99})
			},
			want: []string{"the state of a topic"},
		},
		"the folder of the bodies": {
			damage: func(s *Store, _ []journal.Entry) error {
				b := s.topics.bodies
				b.id = "another store"
				return b.mark()
			},
			want: []string{"the folder of the large bodies"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s := openStore(t, dir, Options{MinFree: -1})
			entries := []journal.Entry{add(t, s, topic, 10), add(t, s, topic, large), add(t, s, topic, 20)}
			add(t, s, other, 30)
			if _, err := Check(dir, func(string, error) {}); !errors.Is(err, ErrLocked) {
				t.Errorf("Check of an open store: %v", err)
			}
			if err := errors.Join(tc.damage(s, entries), s.Close()); err != nil {
				t.Fatal(err)
			}
			var got []string
			c, err := Check(dir, func(what string, why error) {
				if got = append(got, what); why == nil || strings.Contains(why.Error(), "<nil>") {
					t.Errorf("%s: %v", what, why)
				}
			})
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("Check reports %q and returns %v, want reports of %q", got, err, tc.want)
			}
			if want := (Checked{Records: c.Records, Entries: 4, Bytes: 60 + large, Kept: c.Kept}); tc.want == nil && !reflect.DeepEqual(c, want) {
				t.Errorf("Check read %+v, want %+v", c, want)
			}
		})
	}
}

// putRaw replaces a record.
func putRaw(s *Store, bucket, key, value []byte) error {
	return s.folder.db.Update(func(tx *boltfile.Tx) error { return tx.Bucket(bucket).Put(key, value) })
}

// Space reports the free bytes of the disk and Options.MinFree.
func TestSpace(t *testing.T) {
	for minFree, want := range map[int64]int64{-1: 0, 7: 7} {
		s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: minFree})
		if free, least, ok := s.Space(); !ok || free <= 0 || least != want {
			t.Errorf("MinFree %d: %d bytes of %d, %t", minFree, free, least, ok)
		}
	}
}

// A disk with plenty of room is not asked again for a moment, except for more than that. One with less is asked each time.
func TestRoomIsAskedSeldom(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "data"), Options{MinFree: 1})
	free, _, _ := s.Space()
	if err := s.folder.room(0); err != nil {
		t.Fatal(err)
	}
	if asked := s.folder.plentyAt.Load() != nil; asked != (free > plenty) {
		t.Errorf("of %d free bytes, there is plenty: %t", free, asked)
	}
	now := time.Now()
	s.folder.plentyAt.Store(&now)
	s.folder.minFree = math.MaxInt64
	if err := s.folder.room(0); err != nil {
		t.Errorf("at once: %v", err)
	}
	if err := s.folder.room(plenty + 1); !errors.Is(err, journal.ErrFull) {
		t.Errorf("for a body that is larger than plenty: %v", err)
	}
	time.Sleep(plentyFor)
	for range 2 {
		if err := s.folder.room(0); !errors.Is(err, journal.ErrFull) {
			t.Errorf("later: %v", err)
		}
	}
}
