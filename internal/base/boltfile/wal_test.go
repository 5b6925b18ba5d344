package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// content is everything that a file holds.
func content(t *testing.T, d *DB) map[string]string {
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
		t.Error(err)
	}
	return all
}

func noSync(string, func() error) error { return nil }

// sector is what a disk writes as a whole.
const sector = 512

const inTurn = -1

// onDisk is what a disk may have of a file: any sector as it was when the file was synced, or as it was at any
// time since.
type onDisk struct {
	versions [][]byte // the first one is the synced one; nil: the file is missing
	lasting  bool     // its name is synced
}

// disk notes what is written to a file and its log between syncs.
type disk struct {
	path  string
	files map[string]*onDisk
	cut   func() error // called before each sync has ended
}

func newDisk(t *testing.T, path string) *disk {
	t.Helper()
	d := &disk{path: path, files: map[string]*onDisk{}}
	for _, name := range []string{path, path + walSuffix} {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		d.files[name] = &onDisk{[][]byte{b}, true}
	}
	return d
}

// look notes what the files are now.
func (d *disk) look() error {
	for name, f := range d.files {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if last := f.versions[len(f.versions)-1]; last == nil && b != nil {
			f.lasting = false
		} else if bytes.Equal(b, last) && (b == nil) == (last == nil) {
			continue
		}
		f.versions = append(f.versions, b)
	}
	return nil
}

func (d *disk) sync(path string, _ func() error) error {
	if err := d.look(); err != nil {
		return err
	}
	if d.cut != nil {
		if err := d.cut(); err != nil {
			return err
		}
	}
	if f := d.files[path]; f != nil {
		f.versions = f.versions[len(f.versions)-1:]
		return nil
	}
	for _, f := range d.files { // the folder was synced
		f.lasting = true
	}
	return nil
}

// mix returns what a disk may have of the file when the power is cut; nil: nothing. Newest is the share of sectors
// that are as they were last; inTurn: those of the first part are as they were when the file was synced.
func (f *onDisk) mix(rng *rand.Rand, newest float64) []byte {
	versions := f.versions
	turn, at := rng.IntN(len(versions[len(versions)-1])/sector+1)*sector, 0
	pick := func() []byte {
		if newest == inTurn && at < turn {
			return versions[0]
		}
		if newest == inTurn || rng.Float64() < newest {
			return versions[len(versions)-1]
		}
		return versions[rng.IntN(len(versions))]
	}
	whole := versions[len(versions)-1]
	if newest != inTurn {
		whole = pick()
	}
	if whole == nil || !f.lasting && rng.IntN(2) == 0 {
		return nil
	}
	if versions[len(versions)-1] == nil { // it was removed, and is there all the same
		versions = versions[:len(versions)-1]
	}
	mix := make([]byte, len(whole))
	for ; at < len(mix); at += sector {
		if from := pick(); at < len(from) {
			copy(mix[at:min(at+sector, len(mix))], from[at:])
		}
	}
	return mix
}

// Whatever part of what is written the disk has when the power is cut: the file holds all of a transaction or
// nothing, and once it is acknowledged all of it.
func TestPowerCut(t *testing.T) {
	if memory := "/dev/shm"; writable(memory) {
		t.Setenv("TMPDIR", memory) // there are hundreds of files
	}
	outcomes := map[string]int{}
	for seed := range max(1, uint64(*flips)/80) {
		rng := rand.New(rand.NewPCG(seed, 17))
		path := filepath.Join(t.TempDir(), "file.db")
		o := options()
		o.MaxLog = 250 << 10
		if err := open(t, path, o).Close(); err != nil { // bbolt syncs what it makes
			t.Fatal(err)
		}
		noted := newDisk(t, path)
		o.syncs = noted.sync
		var d *DB
		all := map[string]string{}
		cuts := func(was, goes map[string]string) error {
			for _, newest := range []float64{1, 0, 0.5, 0.8, 0.95, inTurn, inTurn} {
				outcome, err := afterCut(t, rng, noted.files, path, newest, was, goes)
				if err != nil {
					return fmt.Errorf("newest %v: %w", newest, err)
				}
				outcomes[outcome]++
			}
			return nil
		}
		for n := range 30 {
			was, goes := all, maps.Clone(all)
			noted.cut = func() error { return cuts(was, goes) }
			if n%4 == 0 {
				d = open(t, path, o)
			}
			err := d.Update(func(tx *Tx) error { return change(tx, rng, goes, n) })
			if all = goes; err == nil {
				err = errors.Join(noted.look(), cuts(all, all)) // it is acknowledged
			}
			if n%4 == 2 && err == nil {
				noted.cut = func() error { return cuts(all, all) }
				err = errors.Join(d.Wipe(), noted.look(), cuts(all, all))
			}
			if n%4 == 3 && err == nil {
				err = errors.Join(d.Close(), noted.look(), cuts(all, all))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Log(outcomes)
	if outcomes["nothing"] < 50 || outcomes["all"] < 50 {
		t.Errorf("of the transactions that were cut off, the files hold %v: too few of a kind", outcomes)
	}
}

// afterCut opens a file after a cut, and says what it holds of the transaction that was being written.
func afterCut(t *testing.T, rng *rand.Rand, files map[string]*onDisk, from string, newest float64, was, goes map[string]string) (outcome string, err error) {
	path := filepath.Join(t.TempDir(), "cut.db")
	for name, f := range files {
		if b := f.mix(rng, newest); b != nil {
			if err := os.WriteFile(path+strings.TrimPrefix(name, from), b, 0o600); err != nil {
				return "", err
			}
		}
	}
	o := options()
	o.syncs = noSync
	if rng.IntN(2) == 0 {
		var bad []byte
		if _, err := Check(path, o, func(_, key []byte) { bad = key }, nil); err != nil || bad != nil {
			return "", fmt.Errorf("Check: damaged %q, %w", bad, err)
		}
	}
	var got map[string]string
	for n := range 2 {
		d, err := Open(path, o)
		if err != nil {
			return "", err
		}
		now := content(t, d)
		switch {
		case n == 1 && maps.Equal(now, got):
			return outcome, errors.Join(d.Close(), os.Remove(path))
		case n == 1:
			return "", fmt.Errorf("after one more record the file holds %d, want %d", len(now), len(got))
		case maps.Equal(now, goes):
			outcome = "all"
		case maps.Equal(now, was):
			outcome = "nothing"
		default:
			return "", fmt.Errorf("the file holds %d records, which are neither the %d of before nor the %d of after", len(now), len(was), len(goes))
		}
		got, now["small/one more"] = now, "v"
		err = d.Update(func(tx *Tx) error { return tx.Bucket(small).Put([]byte("one more"), []byte("v")) })
		if err := errors.Join(err, d.Close()); err != nil {
			return "", err
		}
	}
	return "", nil
}

// change makes changes in a transaction, and the same ones to all.
func change(tx *Tx, rng *rand.Rand, all map[string]string, n int) error {
	count := []int{1, 60, 3, 150, 1, 20}[n%6]
	for name, v := range records(rng, count) {
		all[name] = string(v)
	}
	if n%12 == 5 || n%12 == 6 { // more than a record of the log may have
		for i := range 40 {
			all[fmt.Sprint("large/many ", i)] = string(bytes.Repeat([]byte{byte(i + n)}, 16<<10))
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

func writable(dir string) bool {
	probe, err := os.MkdirTemp(dir, "probe")
	return err == nil && os.Remove(probe) == nil
}

// killed writes to a file, and returns what is in the folder as a killed process leaves it.
func killed(t *testing.T, o Options, times int) (file, log []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "killed.db")
	d := open(t, path, o)
	for n := range times {
		write(t, d, map[string][]byte{"small/a": []byte(fmt.Sprintf("value %5d", n))})
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if log, err = os.ReadFile(path + walSuffix); err != nil {
		t.Fatal(err)
	}
	return file, log
}

// place writes a file and its log; nil: none.
func place(t *testing.T, file, log []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "placed.db")
	err := os.WriteFile(path, file, 0o600)
	if log != nil {
		err = errors.Join(err, os.WriteFile(path+walSuffix, log, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func wantValue(t *testing.T, d *DB, want string) {
	t.Helper()
	got, err := Read(d, func(tx *Tx) string { return string(tx.Bucket(small).Get([]byte("a"))) })
	if err != nil || got != want {
		t.Errorf("it holds %q, %v; want %q", got, err, want)
	}
}

// What is behind the last record in a log that began again is older, and is not replayed.
func TestLogBeginsAgain(t *testing.T) {
	o := options()
	o.MaxLog, o.syncs = 200<<10, noSync
	for times := 40; times < 60; times++ {
		file, log := killed(t, o, times)
		if len(log) > 200<<10 {
			t.Fatalf("the log has %d bytes", len(log))
		}
		d := open(t, place(t, file, log), o)
		wantValue(t, d, fmt.Sprintf("value %5d", times-1))
	}
}

// A file is not taken for whole without the log that it needs, or with that of another file, and says so. A log that
// it does not need changes nothing.
func TestFileAndLogBelongTogether(t *testing.T) {
	file, log := killed(t, options(), 3)
	_, other := killed(t, options(), 5)
	closed := place(t, file, log)
	if err := open(t, closed, options()).Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(closed)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		file, log []byte
		want      string // of the error; none: it opens
	}{
		{"both", file, log, ""},
		{"no log", file, nil, "it was not closed, and "},
		{"the log of another file", file, other, "belongs to another file"},
		{"something else as its log", file, []byte("a log"), "does not begin as one"},
		{"an empty log", file, []byte{}, "does not begin as one"},
		{"the beginning of the log is damaged", file, slices.Concat(log[:walStart], make([]byte, 10), log[walStart+10:]), ""},
		{"the log is cut off", file, log[:len(log)-walBlock], "only those until"},
		{"closed", whole, nil, ""},
		{"closed, with a log that is not needed", whole, log, ""},
		{"closed, with the log of another file", whole, other, ""},
	} {
		path := place(t, tt.file, tt.log)
		_, checkErr := Check(path, options(), func(_, key []byte) { t.Errorf("%s: %s is damaged", tt.name, key) }, nil)
		d, err := Open(path, options())
		if tt.want != "" {
			for _, err := range []error{checkErr, err} {
				if damaged := (*DamagedError)(nil); !errors.As(err, &damaged) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "put a backup") {
					t.Errorf("%s: %v", tt.name, err)
				}
			}
			continue
		}
		if err != nil || checkErr != nil {
			t.Fatalf("%s: %v; Check: %v", tt.name, err, checkErr)
		}
		wantValue(t, d, "value     2")
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path + walSuffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: after Close there is a log: %v", tt.name, err)
		}
	}
}

// A log that begins later than its file ends is damage.
func TestLogOfLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	write(t, d, map[string][]byte{"small/a": nil})
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.db.restartLog(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		write(t, d, map[string][]byte{"small/a": nil})
	}
	if err := d.db.restartLog(); err != nil {
		t.Fatal(err)
	}
	write(t, d, map[string][]byte{"small/a": nil})
	log, err := os.ReadFile(path + walSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(place(t, before, log), options()); !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), "on") {
		t.Error(err)
	}
}

// The power is cut while the first record of a log that began again is written over older ones, of which the first
// is still whole.
func TestPowerCutWhereTheLogBeganAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	for _, v := range []string{"1", "2", "3"} {
		write(t, d, map[string][]byte{"small/a": []byte(v)})
	}
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := d.db.restartLog(); err != nil {
		t.Fatal(err)
	}
	file, before := read(path), read(path+walSuffix)
	write(t, d, map[string][]byte{"small/a": []byte("4"), "large/b": make([]byte, 60_000)})
	after := read(path + walSuffix)
	for at := walStart; at < len(after); at += walBlock {
		log := slices.Concat(before[:min(at, len(before))], after[min(at, len(before)):])
		wantValue(t, open(t, place(t, file, log), options()), map[bool]string{true: "4", false: "3"}[at == walStart])
	}
}

// What the log has when it begins again is not replayed after a transaction that went to the file directly.
func TestDirectAfterTheLogBeganAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	write(t, d, map[string][]byte{"small/a": []byte("before")})
	if err := d.db.restartLog(); err != nil {
		t.Fatal(err)
	}
	write(t, d, map[string][]byte{"small/a": []byte("after"), "large/b": make([]byte, recordMax+1)})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + walSuffix)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, open(t, place(t, file, log), options()), "after")
}

// Where the file cannot be closed properly, its log stays, and the next Open has everything.
func TestLogStaysAfterAFailedClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	for n, name := range []string{path, path + walSuffix} {
		d := open(t, path, options())
		write(t, d, map[string][]byte{"small/a": {byte('a' + n)}})
		d.InterceptSync(func(of string, sync func() error) error {
			if of == name {
				return errors.New("input/output error")
			}
			return sync()
		})
		err := d.Close()
		if _, missing := os.Stat(path + walSuffix); missing != nil {
			t.Errorf("a sync of %s fails: Close: %v, the log: %v", name, err, missing)
		}
		again := open(t, path, options())
		wantValue(t, again, string(rune('a'+n)))
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A replay syncs the log before it writes to the file: a killed process may not have synced its last record. And a
// log that its file does not need goes after a sync of the file.
func TestReplaySyncsFirst(t *testing.T) {
	file, log := killed(t, options(), 3)
	closed := place(t, file, log)
	if err := open(t, closed, options()).Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(closed)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		file       []byte
	}{{"killed", walSuffix, file}, {"closed", "", whole}} {
		path, first := place(t, tt.file, log), "none"
		o := options()
		o.syncs = func(of string, sync func() error) error {
			if first == "none" {
				first = strings.TrimPrefix(of, path)
			}
			return sync()
		}
		if open(t, path, o); first != tt.want {
			t.Errorf("%s: the first sync is of %q, want %q", tt.name, first, tt.want)
		}
	}
}

// Whatever records a log has, reading them ends, and takes no more memory than a record may.
func FuzzLog(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(make([]byte, walBlock), true)
	r := record{txid: 7, meta: make([]byte, 4096), metaAt: 4096}
	r.add(bytes.Repeat([]byte{1}, 8192), 3*4096)
	f.Add(r.head(nil), true)
	f.Add(slices.Concat(r.head(nil), r.data, r.meta), false)
	w, err := createWAL(filepath.Join(f.TempDir(), "log"), 4096, noSync)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = w.close() })
	f.Fuzz(func(t *testing.T, b []byte, sign bool) {
		if len(b) >= recordHead && sign { // so that more than the checksum is read
			sum := crc32.Checksum(w.id, castagnoli)
			binary.BigEndian.PutUint32(b, crc32.Update(sum, castagnoli, b[4:]))
		}
		w.at = walStart
		if err := w.f.Truncate(walStart); err != nil {
			t.Fatal(err)
		}
		if _, err := w.f.WriteAt(b, walStart); err != nil {
			t.Fatal(err)
		}
		r, err := w.next()
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			return
		}
		size := int64(0)
		for _, p := range r.pages {
			size += p.size
		}
		if size != int64(len(r.data)) || w.at-walStart > int64(len(b)) {
			t.Errorf("a record of %d bytes has %d bytes of pages, and the next one is at %d", len(b), size, w.at)
		}
	})
}
