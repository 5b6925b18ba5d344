package boltfile

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
)

var flips = flag.Int("flips", 80, "how many bytes are damaged, one at a time")

var (
	small = []byte("small")
	large = []byte("large")
)

func options() Options {
	return Options{Buckets: [][]byte{small, large}, Format: 3, Advice: "put a backup in its place"}
}

func open(t *testing.T, path string, o Options) *DB {
	t.Helper()
	d, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// write stores records by "bucket/key".
func write(t *testing.T, d *DB, records map[string][]byte) {
	t.Helper()
	err := d.Update(func(tx *Tx) error {
		for name, v := range records {
			bucket, key, _ := strings.Cut(name, "/")
			if err := tx.Bucket([]byte(bucket)).Put([]byte(key), v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// records are some with short keys and long ones, and with values over several pages.
func records(rng *rand.Rand, n int) map[string][]byte {
	out := map[string][]byte{}
	for range n {
		key, size := fmt.Sprintf("%0*x", 1+rng.IntN(60), rng.Uint64()), rng.IntN(200)
		bucket := "small"
		if rng.IntN(20) == 0 {
			bucket, size = "large", rng.IntN(20_000)
		}
		v := make([]byte, size)
		for i := range v {
			v[i] = byte(rng.Uint32())
		}
		out[bucket+"/"+key] = v
	}
	return out
}

// compare reads all records. It returns how many were said to be damaged.
func compare(t *testing.T, d *DB, want map[string][]byte) (damaged int) {
	t.Helper()
	for name, v := range want {
		bucket, key, _ := strings.Cut(name, "/")
		err := d.View(func(tx *Tx) error {
			if got := tx.Bucket([]byte(bucket)).Get([]byte(key)); got == nil || !bytes.Equal(got, v) {
				t.Errorf("%s: %d bytes, nil: %t, want %d", name, len(got), got == nil, len(v))
			}
			return nil
		})
		if errors.As(err, new(*DamagedError)) {
			damaged++
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	return damaged
}

// made returns the bytes of a file with records, after Close or as a killed process leaves it. Then log is that of its log.
func made(t *testing.T, rng *rand.Rand, closed bool) (b, log []byte, all map[string][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made.db")
	d := open(t, path, options())
	all = records(rng, 600)
	write(t, d, all)
	for range 20 { // so that pages are free, or hold what was there before
		more := records(rng, 10)
		for name := range all {
			if len(more) < 20 {
				more[name] = append([]byte("newer "), all[name]...)
			}
		}
		write(t, d, more)
		for name, v := range more {
			all[name] = v
		}
	}
	if closed {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err = os.ReadFile(path + walSuffix)
	if closed != errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the log: %v", err)
	}
	return b, log, all
}

// Whatever byte of a file is damaged: it is refused, or what is read is what was
// stored, or said to be damaged. No record disappears.
func TestFlippedBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	refused, damaged := 0, 0
	for _, closed := range []bool{true, false} {
		whole, log, want := made(t, rng, closed)
		for n := range *flips {
			b, at, by := append(bytes.Clone(whole), log...), rng.IntN(len(whole)+len(log)), byte(1+rng.IntN(255))
			if inner := innerPages(b); closed && n%2 == 0 { // in which there is more to break
				page := inner[rng.IntN(len(inner))]
				at = page + rng.IntN(min(4096, headSize+40*int(native.Uint16(b[page+10:]))))
			}
			b[at] ^= by
			path := filepath.Join(t.TempDir(), "damaged.db")
			err := os.WriteFile(path, b[:len(whole)], 0o600)
			if err == nil && !closed {
				err = os.WriteFile(path+walSuffix, b[len(whole):], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := Open(path, options())
			if err != nil {
				refused++
				if !errors.As(err, new(*DamagedError)) && !errors.Is(err, ErrOlder) {
					t.Errorf("byte %d: %v", at, err)
				}
				continue
			}
			damaged += compare(t, d, want)
			write(t, d, map[string][]byte{"small/another": []byte("value")})
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatalf("byte %d of a file of %d, closed: %t, was changed by %x", at, len(b), closed, by)
			}
		}
	}
	t.Logf("of %d files %d were refused; %d values were said to be damaged", 2**flips, refused, damaged)
	if refused == 0 || damaged == 0 {
		t.Error("nothing was noticed")
	}
}

// innerPages are where those pages begin that lead to others, or list free ones.
func innerPages(b []byte) (at []int) {
	for page := 0; page < len(b); page += 4096 {
		if kind := native.Uint16(b[page+8:]); native.Uint64(b[page:]) == uint64(page/4096) && (kind == kindBranch || kind == kindFreelist) {
			at = append(at, page)
		}
	}
	return at
}

// A file that is cut off anywhere is refused, with what to do.
func TestCutOff(t *testing.T) {
	whole, _, _ := made(t, rand.New(rand.NewPCG(3, 4)), true)
	for _, size := range []int{1, 100, 4095, 4096, 5000, 8192, 12288, len(whole) / 8, len(whole) / 2, len(whole) - 4096, len(whole) - 1} {
		path := filepath.Join(t.TempDir(), "cut.db")
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path, options())
		if damaged := (*DamagedError)(nil); !errors.As(err, &damaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "put a backup in its place") {
			t.Errorf("cut to %d of %d bytes: %v", size, len(whole), err)
		}
	}
}

// A damaged value is an error, or is empty, and Check names its record.
func TestDamagedValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	write(t, d, map[string][]byte{"small/a": []byte("the value of a"), "small/b": []byte("another one")})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.ReplaceAll(b, []byte("value of a"), []byte("valve of a")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	n, err := Check(path, options(), func(bucket, key []byte) { found = append(found, string(bucket)+"/"+string(key)) }, nil)
	if err != nil || n != 3 || len(found) != 1 || found[0] != "small/a" {
		t.Errorf("Check: %d records, %q, %v", n, found, err)
	}
	read := func(o Options, use func(b Bucket)) error {
		d := open(t, path, o)
		defer func() { _ = d.Close() }()
		return d.View(func(tx *Tx) error { use(tx.Bucket(small)); return nil })
	}
	for name, use := range map[string]func(b Bucket){
		"Get": func(b Bucket) { b.Get([]byte("a")) }, "First": func(b Bucket) { b.Cursor().First() },
		"ForEach": func(b Bucket) { _ = b.ForEach(func(_, _ []byte) error { return nil }) },
	} {
		if err := read(options(), use); !errors.As(err, new(*DamagedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := read(options(), func(b Bucket) {
		if v := b.Get([]byte("b")); string(v) != "another one" {
			t.Errorf("the one beside it is %q", v)
		}
	}); err != nil {
		t.Error(err)
	}
	pass := options()
	pass.PassDamage = true
	if err := read(pass, func(b Bucket) {
		if v, raw := b.Get([]byte("a")), b.Raw([]byte("a")); v == nil || len(v) != 0 || string(raw) != "the valve of a" {
			t.Errorf("it reads as %q, %q", v, raw)
		}
	}); err != nil {
		t.Error(err)
	}
	pass.Whole = true
	if _, err := Open(path, pass); !errors.As(err, new(*DamagedError)) {
		t.Errorf("read as a whole: %v", err)
	}
}

// One process has a file, and one that another version wrote is named as that.
func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	if _, err := Open(path, options()); !errors.Is(err, ErrLocked) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := Check(path, options(), nil, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("Check: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[uint64]error{2: ErrNewer, 4: ErrOlder} {
		o := options()
		o.Format = format
		if _, err := Open(path, o); !errors.Is(err, want) {
			t.Errorf("for a program with format %d: %v", format, err)
		}
	}
	old := filepath.Join(t.TempDir(), "old.db")
	db, err := bbolt.Open(old, 0o600, nil)
	if err == nil {
		err = errors.Join(db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(small); return err }), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(old, options()); !errors.Is(err, ErrOlder) {
		t.Errorf("a file without a format: %v", err)
	}
	if err := os.WriteFile(old, []byte(strings.Repeat("no database", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(old, options()); !errors.As(err, new(*DamagedError)) {
		t.Errorf("something else: %v", err)
	}
	if _, err := Check(old+"x", options(), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Check of no file: %v", err)
	}
	// An error of the system says nothing about what is stored.
	loop := filepath.Join(t.TempDir(), "loop.db")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(loop, options()); !errors.Is(err, syscall.ELOOP) || errors.As(err, new(*DamagedError)) {
		t.Errorf("a loop of links: %v", err)
	}
}

// A file that was made and never used opens, as does one that a crash left empty.
func TestNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d := open(t, path, options())
		err := d.Update(func(tx *Tx) error {
			n, err := tx.Bucket(small).NextSequence()
			if n != tx.Bucket(small).Sequence() || tx.Bucket(large).Sequence() != 0 {
				t.Errorf("number %d, then %d and %d", n, tx.Bucket(small).Sequence(), tx.Bucket(large).Sequence())
			}
			return err
		})
		if err := errors.Join(err, d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	db, err := bbolt.Open(empty, 0o600, nil)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, open(t, empty, options()), map[string][]byte{"large/a": {1}})
}

// Of those that make a file at the same time, one has it, and the others find it in use. Nothing else is left beside it.
func TestMadeTogether(t *testing.T) {
	for range 5 {
		path := filepath.Join(t.TempDir(), "a.db")
		var made atomic.Pointer[DB]
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				d, err := Open(path, options())
				if err == nil && !made.CompareAndSwap(nil, d) {
					t.Error("it was opened twice")
				}
				if err != nil && !errors.Is(err, ErrLocked) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		d := made.Load()
		if d == nil { // each has found it in use by another one that looked at it
			d = open(t, path, options())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
			t.Errorf("%v, %v", names, err)
		}
		if records, err := Check(path, options(), nil, nil); err != nil || records != 1 { // the format
			t.Errorf("it has %d records, %v", records, err)
		}
	}
}

// What another process made of the file after the first look at it is refused under the lock, and the file is free then.
func TestOtherFormatUnderTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	newer := options()
	newer.Format += 6
	if err := open(t, path, newer).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := (&DB{path: path, o: options()}).open(); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	open(t, path, newer)
}

// A file that bbolt cannot open is not locked then.
func TestNotOpenedIsNotLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	write(t, d, map[string][]byte{"small/a": []byte("v")})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last, err := readMetas(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	native.PutUint16(damaged[int(last.freelist)*last.pageSize+8:], 0) // it is a list of free pages no more
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&DB{path: path, o: options()}).open(); !errors.As(err, new(*DamagedError)) {
		t.Error(err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path, options())
}

// A transaction does not wait for one that reads.
func TestWritingBesideAView(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "a.db"), options())
	write(t, d, map[string][]byte{"large/b": make([]byte, 100_000)}) // so that the file is mapped already
	err := d.View(func(*Tx) error {
		write(t, d, map[string][]byte{"small/a": []byte("v")})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A file that was cut off meanwhile ends no process, and Close says it.
func TestCutOffBeforeClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	write(t, d, map[string][]byte{"small/a": []byte("v")})
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); !errors.As(err, new(*DamagedError)) {
		t.Error(err)
	}
}

// A reader that can make nothing of a value ends its transaction as a wrong checksum does,
// and a write with it leaves nothing behind.
func TestRefusedValue(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "a.db"), options())
	defer func() { _ = d.Close() }()
	write(t, d, map[string][]byte{"small/a": []byte(`{"n": 1}`), "small/b": []byte("no JSON"), "small/c": []byte(`{"n": 3}`)})
	var v struct {
		N int `json:"n"`
	}
	err := d.Update(func(tx *Tx) error {
		b := tx.Bucket(small)
		if !b.GetJSON([]byte("a"), &v) || v.N != 1 || b.GetJSON([]byte("none"), &v) {
			t.Errorf("read %+v", v)
		}
		v.N = 2
		if err := b.PutJSON([]byte("a"), v); err != nil {
			t.Error(err)
		}
		b.GetJSON([]byte("b"), &v)
		t.Error("a value that is no JSON was read")
		return nil
	})
	if damaged := new(*DamagedError); !errors.As(err, damaged) || !strings.Contains(err.Error(), `the value of "b" in small`) {
		t.Error(err)
	}
	err = d.View(func(tx *Tx) error {
		b, keys := tx.Bucket(small), ""
		for k := range b.From(nil) {
			keys += string(k)
		}
		for k := range b.From([]byte("bb")) {
			keys += " " + string(k)
		}
		for k := range b.From(nil) {
			keys += " " + string(k)
			break
		}
		if b.GetJSON([]byte("a"), &v); v.N != 1 || keys != "abc c a" {
			t.Errorf("%+v and the keys %q", v, keys)
		}
		if err := b.PutJSON([]byte("a"), func() {}); err == nil {
			t.Error("a function was stored")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
