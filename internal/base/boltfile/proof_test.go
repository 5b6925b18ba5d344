package boltfile

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sector is what a disk writes as a whole.
const sector = 512

// awaitSettled waits until the last transaction of a file is settled.
func awaitSettled(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		last, other, err := readSlots(bytes.NewReader(b))
		if err == nil && other.proves(last.txid) && last.proves(last.txid) && last.proof.count == settled {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after ten seconds without a write, transaction %d has a proof of %d pages (%v)", last.txid, last.proof.count, err)
		}
	}
}

// content is everything that a file holds.
func content(t *testing.T, d *DB) map[string]string {
	t.Helper()
	all, err := Read(d, func(tx *Tx) map[string]string {
		all := map[string]string{}
		for _, name := range [][]byte{small, large} {
			for k, v := range tx.Bucket(name).From(nil) {
				all[string(name)+"/"+string(k)] = string(v)
			}
		}
		return all
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// written is a file before and after what was written between two syncs.
type written struct{ durable, now []byte }

func noSync(func() error) error { return nil }

// syncs notes what is written between syncs of a file.
type syncs struct {
	path string

	mu      sync.Mutex
	durable []byte
	all     []written
}

func (s *syncs) sync(func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := os.ReadFile(s.path)
	if err == nil {
		s.all = append(s.all, written{s.durable, now})
		s.durable = now
	}
	return err
}

// begin forgets what was written before.
func (s *syncs) begin(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.durable, err = os.ReadFile(s.path); err != nil {
		t.Fatal(err)
	}
	s.all = nil
}

// cut returns what a disk may have when the power is cut before a sync has ended: each sector is from before or
// from after.
func (w written) cut(t *testing.T, rng *rand.Rand, n int) []byte {
	t.Helper()
	mix := make([]byte, max(len(w.now), len(w.durable)))
	copy(mix, w.durable)
	share := []float64{1, 0, 0.5, 0.97, 0.1, 0.9}[n]
	for at := 0; at < len(w.now); at += sector {
		end := min(at+sector, len(w.now))
		if bytes.Equal(mix[at:end], w.now[at:end]) {
			continue
		}
		if meta := at == 0 || at == int(pageOfTest); rng.Float64() < share || meta && n > 1 && rng.IntN(2) == 0 {
			copy(mix[at:end], w.now[at:end])
		}
	}
	last, _, err := readSlots(bytes.NewReader(w.now))
	if err != nil {
		t.Fatal(err)
	}
	if before, _, err := readSlots(bytes.NewReader(w.durable)); n == 5 && err == nil && before.txid != last.txid {
		clear(mix[last.at+proofAt : last.at+pageOfTest]) // bbolt has written the meta page, and the proof was not there yet
	}
	return mix
}

var pageOfTest = int64(os.Getpagesize())

// Whatever part of a transaction the disk has when the power is cut: the file holds all of it or nothing, and once it
// is acknowledged all of it.
func TestPowerCut(t *testing.T) {
	if memory := "/dev/shm"; writable(memory) {
		t.Setenv("TMPDIR", memory) // there are hundreds of files
	}
	outcomes := map[string]int{}
	for seed := range max(1, uint64(*flips)/80) {
		rng := rand.New(rand.NewPCG(seed, 17))
		path := filepath.Join(t.TempDir(), "file.db")
		o := options()
		o.noSync = true // the copies say what would be on the disk
		d := open(t, path, o)
		noted := &syncs{path: path}
		judge := func(was, goes map[string]string) {
			noted.mu.Lock()
			defer noted.mu.Unlock()
			for _, w := range noted.all {
				for n := range 6 {
					outcomes[afterCut(t, w.cut(t, rng, n), was, goes)]++
				}
			}
			afterCut(t, noted.durable, goes, goes) // it is acknowledged
			noted.all = nil
		}
		for n := range 12 {
			noted.begin(t)
			was := content(t, d)
			goes := maps.Clone(was)
			d.InterceptSync(noted.sync)
			if err := d.Update(func(tx *Tx) error { return change(tx, rng, goes, n) }); err != nil {
				t.Fatal(err)
			}
			d.InterceptSync(noSync)
			judge(was, goes)
			if n%4 == 3 {
				d.InterceptSync(noted.sync)
				awaitSettled(t, path)
				d.InterceptSync(noSync)
				judge(goes, goes)
			}
		}
		all := content(t, d)
		d.InterceptSync(noted.sync)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		judge(all, all)
	}
	if outcomes["nothing"] < 20 || outcomes["all"] < 20 {
		t.Errorf("of the transactions that were cut off, the files hold %v: too few of a kind", outcomes)
	}
}

// afterCut opens a file after a cut, and says what it holds of the transaction that was being written.
func afterCut(t *testing.T, b []byte, was, goes map[string]string) (outcome string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cut.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.noSync = true
	// Check finds nothing wrong, or says that a write was cut off.
	bad := func(bucket, key []byte) { t.Errorf("the value of %q in %s is damaged", key, bucket) }
	if _, err := Check(path, o, bad, nil); err != nil && !strings.Contains(err.Error(), "cut off the last write") {
		t.Fatalf("Check: %v", err)
	}
	d := open(t, path, o)
	got := content(t, d)
	switch {
	case maps.Equal(got, goes):
		outcome = "all"
	case maps.Equal(got, was):
		outcome = "nothing"
	default:
		t.Fatalf("the file holds %d records, which are neither the %d of before nor the %d of after", len(got), len(was), len(goes))
	}
	write(t, d, map[string][]byte{"small/one more": []byte("v")})
	got["small/one more"] = "v"
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if again := content(t, open(t, path, o)); !maps.Equal(again, got) {
		t.Fatalf("after one more record the file holds %d, want %d", len(again), len(got))
	}
	_ = os.Remove(path)
	return outcome
}

// change makes changes in a transaction, and the same ones to all.
func change(tx *Tx, rng *rand.Rand, all map[string]string, n int) error {
	count := []int{1, 300, 3, 1500, 1, 40}[n%6]
	for name, v := range records(rng, count) {
		all[name] = string(v)
	}
	if n == 9 { // many pages
		for i := range 80 {
			all[fmt.Sprint("large/many ", i)] = string(bytes.Repeat([]byte{byte(i)}, 64<<10))
		}
	}
	names := slices.Sorted(maps.Keys(all))
	for i, name := range names {
		bucket, key := tx.Bucket([]byte(name[:5])), []byte(name[6:])
		var err error
		switch {
		case n%6 == 4 && i%2 == 0 || len(all) > 1 && rng.IntN(100) == 0:
			delete(all, name)
			err = bucket.Delete(key)
		case string(bucket.Get(key)) != all[name] || bucket.Get(key) == nil:
			err = bucket.Put(key, []byte(all[name]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A file without proofs, as bbolt itself writes it or a copy, is opened as it is, and has them from then on.
func TestFileWithoutProofs(t *testing.T) {
	whole, want := made(t, rand.New(rand.NewPCG(5, 6)), true)
	last, other, err := readSlots(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []slot{last, other} {
		clear(whole[s.at+proofAt : s.at+pageOfTest])
	}
	path := filepath.Join(t.TempDir(), "plain.db")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	compare(t, open(t, path, options()), want)
	awaitSettled(t, path)
}

func writable(dir string) bool {
	probe, err := os.MkdirTemp(dir, "probe")
	return err == nil && os.Remove(probe) == nil
}
