package boltfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// content is everything that a file holds.
func content(d *DB) (map[string]string, error) {
	return Read(d, func(tx *Tx) map[string]string {
		all := map[string]string{}
		for _, name := range [][]byte{small, large} {
			for k, v := range tx.Bucket(name).From(nil) {
				all[string(name)+"/"+string(k)] = string(v)
			}
		}
		return all
	})
}

func noSync(string, func() error) error { return nil }

const (
	sector    = 512  // what a disk writes as a whole
	cachePage = 4096 // what a system writes as a whole
)

const inTurn = -1

// onDisk is what a disk may have of a file. A page to which something was written since it was synced may have any
// sector as it is on the disk, or as it was at any time since.
type onDisk struct {
	disk     []byte   // nil: the file is missing
	versions [][]byte // what it was since it was synced, and last what it is; nil: missing
	written  map[int]bool
	lasting  bool // its name is synced
}

// disk notes what is written to a file and its log between syncs.
type disk struct {
	path  string
	files map[string]*onDisk
	cut   func() error            // called before each sync has ended
	fails func(path string) error // called in each sync and some writes; nil: none fails
	rng   *rand.Rand
}

func newDisk(t *testing.T, path string, rng *rand.Rand) *disk {
	t.Helper()
	d := &disk{path: path, files: map[string]*onDisk{}, rng: rng}
	for _, name := range []string{path, path + walSuffix} {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		d.files[name] = &onDisk{disk: b, versions: [][]byte{b}, written: map[int]bool{}, lasting: true}
	}
	return d
}

// writes notes a write, also one of what is there already. It may fail.
func (d *disk) writes(path string, at int64, size int) error {
	if d.fails != nil && d.rng.IntN(10) == 0 {
		if err := d.fails(path); err != nil {
			return err
		}
	}
	for page := int(at) / cachePage; page*cachePage < int(at)+size; page++ {
		d.files[path].written[page] = true
	}
	return nil
}

// look notes what the files are now.
func (d *disk) look() error {
	for name, f := range d.files {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		last := f.versions[len(f.versions)-1]
		if last == nil && b != nil {
			f.lasting = false
		} else if bytes.Equal(b, last) && (b == nil) == (last == nil) {
			continue
		}
		for at := 0; at < max(len(b), len(last)); at += cachePage {
			if !bytes.Equal(part(b, at, cachePage), part(last, at, cachePage)) {
				f.written[at/cachePage] = true
			}
		}
		f.versions = append(f.versions, b)
	}
	return nil
}

func part(b []byte, at, size int) []byte { return b[min(at, len(b)):min(at+size, len(b))] }

// sync makes a file or the names in its folder last, or fails. Then the disk has some of what was written, and the
// system calls all of it written.
func (d *disk) sync(path string, _ func() error) error {
	if err := d.look(); err != nil {
		return err
	}
	if d.cut != nil {
		if err := d.cut(); err != nil {
			return err
		}
	}
	failed := error(nil)
	if d.fails != nil {
		failed = d.fails(path)
	}
	f := d.files[path]
	switch {
	case f == nil && failed == nil: // the folder
		for _, f := range d.files {
			f.lasting = true
		}
	case f != nil:
		last := f.versions[len(f.versions)-1]
		next := make([]byte, len(last))
		copy(next, f.disk)
		for page := range f.written {
			for at := page * cachePage; at < (page+1)*cachePage; at += sector {
				from := last
				if failed != nil {
					from = append([][]byte{f.disk}, f.versions...)[d.rng.IntN(len(f.versions)+1)]
				}
				clear(part(next, at, sector))
				copy(part(next, at, sector), part(from, at, sector))
			}
		}
		f.disk, f.versions = next, [][]byte{last}
		clear(f.written)
	}
	return failed
}

// mix returns what a disk may have of the file when the power is cut; nil: nothing. Newest is the share of sectors
// that are as they were last; inTurn: those of the first part are as they were when the file was synced.
func (f *onDisk) mix(rng *rand.Rand, newest float64) []byte {
	versions := append([][]byte{f.disk}, f.versions...)
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
		from := f.disk
		if f.written[at/cachePage] {
			from = pick()
		}
		copy(part(mix, at, sector), part(from, at, sector))
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
		powerCuts(t, rand.New(rand.NewPCG(seed, 17)), nil, []float64{1, 0, 0.8, inTurn}, outcomes)
	}
	t.Log(outcomes)
	if outcomes["nothing"] < 50 || outcomes["all"] < 50 {
		t.Errorf("of the transactions that were cut off, the files hold %v: too few of a kind", outcomes)
	}
}

// The same holds where writes and syncs have failed before. A sync that fails loses what was not written. What can be read
// is durable also then, and what failed without doubt is not there.
func TestPowerCutAfterErrors(t *testing.T) {
	if memory := "/dev/shm"; writable(memory) {
		t.Setenv("TMPDIR", memory)
	}
	outcomes := map[string]int{}
	for seed := range 2 * max(1, uint64(*flips)/80) {
		rng := rand.New(rand.NewPCG(seed, 18))
		fails := func(path string) error {
			oneIn := 20
			if seed%2 == 0 { // of the log more often, and of nothing else
				oneIn = 6
				if !strings.HasSuffix(path, walSuffix) {
					return nil
				}
			}
			switch rng.IntN(oneIn) {
			case 0:
				outcomes["no space"]++
				return syscall.ENOSPC
			case 1:
				outcomes["input/output error"]++
				return syscall.EIO
			}
			return nil
		}
		powerCuts(t, rng, fails, []float64{0.6}, outcomes)
	}
	t.Log(outcomes)
	for _, what := range []string{"nothing", "all", "stored", "not stored"} {
		if outcomes[what] == 0 {
			t.Errorf("the outcome %q did not come", what)
		}
	}
}

// powerCuts writes to a file, and cuts the power at each sync.
func powerCuts(t *testing.T, rng *rand.Rand, fails func(string) error, shares []float64, outcomes map[string]int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.db")
	o := options()
	o.MaxLog = 250 << 10
	if err := open(t, path, o).Close(); err != nil { // bbolt syncs what it makes
		t.Fatal(err)
	}
	noted := newDisk(t, path, rng)
	noted.fails = fails
	o.syncs, o.writes = noted.sync, noted.writes
	all := map[string]string{}
	was, goes := all, all // the file holds one of them
	wrong := error(nil)
	noted.cut = func() error {
		for _, newest := range shares {
			outcome, err := afterCut(t, rng, noted.files, path, newest, was, goes)
			if err != nil {
				wrong = cmp.Or(wrong, fmt.Errorf("newest %v: %w", newest, err))
			}
			outcomes[outcome]++
		}
		return wrong
	}
	may := func(what string, err error) { // it fails only where a sync does
		t.Helper()
		if err != nil && fails != nil && (errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC)) {
			outcomes[what]++
		} else if err != nil {
			t.Fatal(what, ": ", err)
		}
		if wrong != nil {
			t.Fatal(what, ": ", wrong)
		}
	}
	settled := func() { // the file holds this and nothing else
		t.Helper()
		was, goes = all, all
		may("cut off", errors.Join(noted.look(), noted.cut()))
	}
	var d *DB
	for n := range 16 {
		for d == nil {
			again, err := Open(path, o)
			if may("not opened", err); err != nil {
				continue
			}
			if all, err = content(again); err != nil || !maps.Equal(all, was) && !maps.Equal(all, goes) {
				t.Fatalf("opened again, the file holds %d records, %v; want the %d of before or the %d of after", len(all), err, len(was), len(goes))
			}
			d = again
			t.Cleanup(func() { _ = again.Close() })
			settled()
		}
		goes = maps.Clone(all)
		err := d.Update(func(tx *Tx) error {
			goes = maps.Clone(all) // it may be called again
			return change(tx, rng, goes, n)
		})
		switch may("not stored", err); {
		case err == nil:
			outcomes["stored"]++
			all = goes
		case MayBeStored(err):
			outcomes["perhaps stored"]++
			if shown, err := content(d); err == nil && maps.Equal(shown, goes) {
				all = goes
			} else if err != nil {
				_ = d.Close() // the error was seen
				d = nil
				continue
			}
		}
		settled()
		if n%4 == 2 {
			may("not wiped", d.Wipe())
			settled()
		}
		if n%4 == 3 || d.Ready() != nil {
			may("not closed", d.Close())
			d = nil
			settled()
		}
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
		now, err := content(d)
		if err != nil {
			return "", err
		}
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
		if left, err := os.ReadFile(path + walSuffix); bytes.Equal(tt.file, whole) && !bytes.Equal(left, tt.log) {
			t.Errorf("%s: after Check the log has %d bytes, %v", tt.name, len(left), err)
		}
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
	write(t, d, map[string][]byte{"small/a": []byte("4"), "large/b": bytes.Repeat([]byte("b"), 60_000)})
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
		if _, missing := os.Stat(path + walSuffix); err == nil || missing != nil {
			t.Errorf("a sync of %s fails: Close: %v, the log: %v", name, err, missing)
		}
		again := open(t, path, options())
		wantValue(t, again, string(rune('a'+n)))
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A replay writes the last record again and syncs the log before it writes to the file: a killed process may not have
// synced it, or its sync failed. And a log that its file does not need goes after a sync of the file.
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
		var end int64 // of what was written to the log
		o.writes = func(to string, at int64, size int) error {
			if to == path+walSuffix {
				end = at + int64(size)
			}
			return nil
		}
		o.syncs = func(of string, sync func() error) error {
			if first == "none" {
				first = strings.TrimPrefix(of, path)
				if first == walSuffix && end != int64(len(log)) {
					t.Errorf("the log was synced when it was written until %d, and has %d bytes", end, len(log))
				}
			}
			return sync()
		}
		if open(t, path, o); first != tt.want {
			t.Errorf("%s: the first sync is of %q, want %q", tt.name, first, tt.want)
		}
	}
}

// A file that was not closed is whole under another name.
func TestFileBehindALink(t *testing.T) {
	file, log := killed(t, options(), 3)
	path, link := place(t, file, log), filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	d := open(t, link, options())
	wantValue(t, d, "value     2")
	write(t, d, map[string][]byte{"small/a": []byte("3")})
	if _, err := os.Stat(path + walSuffix); err != nil {
		t.Error(err)
	}
}

// What lies in the place of a log that is not needed does not matter, even if it cannot be removed.
func TestLogCannotBeRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	write(t, d, map[string][]byte{"small/a": []byte("1")})
	if err := errors.Join(d.Close(), os.MkdirAll(filepath.Join(path+walSuffix, "in the way"), 0o700)); err != nil {
		t.Fatal(err)
	}
	d = open(t, path, options())
	write(t, d, map[string][]byte{"small/a": []byte("2")})
	wantValue(t, d, "2")
}

// Where there can be no log, transactions go to the file. A large one does that as well, and gives back the room that
// the log had.
func TestWithoutLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	if err := os.MkdirAll(filepath.Join(path+walSuffix, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, d, map[string][]byte{"small/a": []byte("1")})
	if err := errors.Join(d.Close(), os.RemoveAll(path+walSuffix)); err != nil {
		t.Fatal(err)
	}
	d = open(t, path, options())
	wantValue(t, d, "1")
	for n := range 10 {
		write(t, d, map[string][]byte{"small/a": {byte('a' + n)}})
	}
	write(t, d, map[string][]byte{"small/a": []byte("2"), "large/b": make([]byte, recordMax+1)})
	if log, err := os.Stat(path + walSuffix); err != nil || log.Size() != walStart+walBlock {
		t.Errorf("after a large transaction the log is %v, %v", log, err)
	}
	wantValue(t, d, "2")
}

// Where the disk is too full for the log, a transaction does without it.
func TestNoRoomForTheLog(t *testing.T) {
	path, full := filepath.Join(t.TempDir(), "a.db"), false
	o := options()
	o.writes = func(to string, _ int64, _ int) error {
		if full && to == path+walSuffix {
			full = false
			return syscall.ENOSPC
		}
		return nil
	}
	d := open(t, path, o)
	for _, v := range []string{"1", "2", "3"} {
		full = v != "2"
		write(t, d, map[string][]byte{"small/a": []byte(v)})
		if v != "2" && full {
			t.Errorf("nothing was written to the log")
		}
	}
	wantValue(t, d, "3")
}

// A sync that fails in Wipe is as bad as one of a commit.
func TestWipeFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	for cause, lasts := range map[error]bool{syscall.EIO: true, syscall.ENOSPC: false} {
		for fails := range 3 {
			d := open(t, path, options())
			write(t, d, map[string][]byte{"small/a": []byte("v")})
			syncs := 0
			d.InterceptSync(func(_ string, sync func() error) error {
				if syncs++; syncs == fails+1 {
					return cause
				}
				return sync()
			})
			if err := d.Wipe(); !errors.Is(err, cause) {
				t.Errorf("sync %d fails: %v", fails, err)
			}
			d.InterceptSync(nil)
			if err := d.Ready(); errors.Is(err, cause) != lasts {
				t.Errorf("after sync %d has failed with %v: %v", fails, cause, err)
			}
			if d.db.wal != nil {
				t.Errorf("after sync %d has failed with %v, the file was not opened again", fails, cause)
			}
			wantValue(t, d, "v")
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A file that is in use is not touched.
func TestInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	for _, v := range []string{"1", "2"} {
		write(t, d, map[string][]byte{"small/a": []byte(v)})
		if _, err := Open(path, options()); !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
		if _, err := Check(path, options(), nil, nil); !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
	}
	file, err := os.ReadFile(path)
	log, err2 := os.ReadFile(path + walSuffix)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	wantValue(t, open(t, place(t, file, log), options()), "2")
}

// Open waits for another process. If that one is killed, Open has all that it wrote.
func TestOtherProcessIsKilled(t *testing.T) {
	const name = "BOLTFILE_OF_THE_OTHER_PROCESS"
	if path := os.Getenv(name); path != "" {
		d := open(t, path, options())
		write(t, d, map[string][]byte{"small/a": []byte("at first")})
		fmt.Println("opened")
		_, _ = os.Stdin.Read(make([]byte, 1))
		write(t, d, map[string][]byte{"small/a": []byte("of the other process")})
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	path := filepath.Join(t.TempDir(), "a.db")
	if err := open(t, path, options()).Close(); err != nil {
		t.Fatal(err)
	}
	for _, check := range []bool{false, true} {
		other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		other.Env = append(os.Environ(), name+"="+path)
		out, err := other.StdoutPipe()
		in, err2 := other.StdinPipe()
		if err := errors.Join(err, err2, other.Start()); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(300*time.Millisecond, func() { _ = in.Close() }) // Open waits by now
		o := options()
		o.Wait = 30 * time.Second
		if check {
			_, err := Check(path, o, func(_, key []byte) { t.Errorf("%s is damaged", key) }, func(tx *Tx) error {
				if got := tx.Bucket(small).Get([]byte("a")); string(got) != "of the other process" {
					t.Errorf("Check sees %q", got)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		} else {
			d := open(t, path, o)
			wantValue(t, d, "of the other process")
			if ids, _, err := marksOf(d.db.file); err != nil || len(ids) > 0 {
				t.Errorf("the file was opened with the marks %x, %v", ids, err)
			}
			if err := errors.Join(d.Update(func(tx *Tx) error { return tx.Bucket(small).Delete([]byte("a")) }), d.Close()); err != nil {
				t.Error(err)
			}
		}
		if err := other.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Error(err)
		}
	}
}

// Another process may open the file and be killed after a look at it, and before it is locked.
func TestKilledBeforeTheLock(t *testing.T) {
	file, log := killed(t, options(), 3)
	path, calls := filepath.Join(t.TempDir(), "a.db"), 0
	err := (&DB{path: path}).openReplayed(func() (io.ReaderAt, func() error, error) {
		if calls++; calls == 1 {
			err := errors.Join(os.WriteFile(path, file, 0o600), os.WriteFile(path+walSuffix, log, 0o600))
			if err != nil {
				t.Fatal(err)
			}
		}
		f, err := os.Open(path)
		return f, f.Close, err
	})
	if err != nil || calls != 2 {
		t.Errorf("it was opened %d times, %v", calls, err)
	}
	wantValue(t, open(t, path, options()), "value     2")
}

// A record comes back as it was, and has little room for the zeros at the ends of pages.
func TestRecordComesBack(t *testing.T) {
	file, log := killed(t, options(), 3)
	m, err := readMetas(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	w, err := openWAL(&DB{path: place(t, file, log)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.close() }() // it is synced by nobody
	for _, full := range []int{0, 1, 7, 8, 9, 200, m.pageSize - 1, m.pageSize} {
		r := record{txid: m.txid, meta: file[:m.pageSize]}
		for n := range 5 {
			r.add(append(bytes.Repeat([]byte{byte(n + 1)}, full), make([]byte, m.pageSize-full)...), int64(2*m.pageSize))
		}
		packed := r.pack(w.id)
		if most := blocks(recordHead + 6*pageHead + 5*(full+8) + 200); len(packed)%walBlock != 0 || len(packed) > most {
			t.Errorf("pages with %d bytes: the record has %d, want %d at most, in whole blocks", full, len(packed), most)
		}
		w.at = walStart
		if err := w.write(packed); err != nil {
			t.Fatal(err)
		}
		got, err := w.next()
		if err != nil || got == nil {
			t.Fatalf("pages with %d bytes: %v, %v", full, got, err)
		}
		if want := append(r.pages, page{0, int64(m.pageSize)}); got.txid != r.txid || !slices.Equal(got.pages, want) || !bytes.Equal(got.data, append(r.data, r.meta...)) {
			t.Errorf("pages with %d bytes come back as %+v of transaction %d, %d bytes", full, got.pages, got.txid, len(got.data))
		}
		if w.at != int64(walStart+len(packed)) {
			t.Errorf("after a record of %d bytes the next one is at %d", len(packed), w.at)
		}
	}
}

// A record that would write anywhere but to whole pages that its meta page knows is not one.
func TestRecordsThatDoNotFit(t *testing.T) {
	file, log := killed(t, options(), 3)
	m, err := readMetas(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	size := int64(m.pageSize)
	for _, tt := range []struct {
		name string
		at   int64
		size int
		meta []byte
		fits bool
	}{
		{"good", 2 * size, m.pageSize, file[:size], true},
		{"the last page", int64(m.high-1) * size, m.pageSize, file[:size], true},
		{"beyond the end", int64(m.high) * size, m.pageSize, file[:size], false},
		{"across the end", int64(m.high-1) * size, 2 * m.pageSize, file[:size], false},
		{"far beyond it", math.MaxInt64 / size * size, m.pageSize, file[:size], false},
		{"not at a page", 2*size + 512, m.pageSize, file[:size], false},
		{"no whole page", 2 * size, 512, file[:size], false},
		{"no meta page", 2 * size, m.pageSize, make([]byte, size), false},
	} {
		w, err := openWAL(&DB{path: place(t, file, log)})
		if err != nil {
			t.Fatal(err)
		}
		r := record{txid: m.txid, meta: tt.meta}
		r.add(make([]byte, tt.size), tt.at)
		if err := errors.Join(w.f.osFile.Truncate(walStart), w.write(r.pack(w.id))); err != nil {
			t.Fatal(err)
		}
		if got, err := w.next(); (got != nil) != tt.fits || err != nil {
			t.Errorf("%s: %v, %v", tt.name, got != nil, err)
		}
		_ = w.close() // it was only read
	}
}

// Whatever records a log has, reading them ends, and takes no more memory than a record may.
func FuzzLog(f *testing.F) {
	path := filepath.Join(f.TempDir(), "file")
	d, err := Open(path, options())
	if err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err := errors.Join(err, d.Close()); err != nil {
		f.Fatal(err)
	}
	w, err := createWAL(d, 4096)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, true)
	f.Add(make([]byte, walBlock), true)
	r := record{txid: 7, meta: b[4096:8192], metaAt: 4096}
	r.add(bytes.Repeat([]byte{1}, 8192), 2*4096)
	f.Add(bytes.Clone(r.pack(nil)), true)
	f.Add(bytes.Clone(r.pack(w.id)), false)
	f.Cleanup(func() { _ = w.close() })
	f.Fuzz(func(t *testing.T, b []byte, sign bool) {
		if b = bytes.Clone(b); len(b) >= recordHead && sign { // so that more than the checksum is read
			b = append(b, make([]byte, blocks(len(b))-len(b))...)
			sum := crc32.Checksum(w.id, castagnoli)
			binary.BigEndian.PutUint32(b, crc32.Update(sum, castagnoli, b[4:]))
		}
		w.at = walStart
		if err := w.f.osFile.Truncate(walStart); err != nil {
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

// A copy of a file has what its log has, if it was not closed. A file that is open is not copied.
func TestCopy(t *testing.T) {
	file, log := killed(t, options(), 3)
	from, to := place(t, file, log), filepath.Join(t.TempDir(), "copy.db")
	if err := Copy(to, from); err != nil {
		t.Fatal(err)
	}
	count := func(path string) (n int) {
		d := open(t, path, options())
		defer d.Close() //nolint:errcheck // it was only read
		n, err := Read(d, func(tx *Tx) int { return tx.Bucket(small).Len() + tx.Bucket(large).Len() })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got, want := count(to), count(from); got != want || want == 0 {
		t.Errorf("the copy has %d records, want %d", got, want)
	}
	d := open(t, from, options())
	if err := Copy(filepath.Join(t.TempDir(), "copy.db"), from); !errors.Is(err, ErrLocked) {
		t.Errorf("of an open file: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Copy(filepath.Join(t.TempDir(), "copy.db"), from); err != nil {
		t.Errorf("of a closed file: %v", err)
	}
}
