package boltfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
)

// put is an Op that stores key in small, and then returns err.
func put(key string, err error) *Op {
	return &Op{Run: func(tx *Tx) error {
		return errors.Join(tx.Bucket(small).Put([]byte(key), []byte("v")), err)
	}}
}

// together runs ops in one group, and returns their results.
func together(t *testing.T, d *DB, ops ...*Op) []error {
	t.Helper()
	release := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		_ = d.Update(func(*Tx) error { // keeps the writer busy while the others come
			<-release
			return nil
		})
	})
	synctest.Wait()
	errs := make([]error, len(ops))
	for i, o := range ops {
		wait.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("Do panicked: %v", p)
				}
			}()
			errs[i] = d.Do(context.Background(), o)
		})
	}
	synctest.Wait()
	close(release)
	wait.Wait()
	return errs
}

// wantKeys compares the keys of small.
func wantKeys(t *testing.T, d *DB, want string) {
	t.Helper()
	got, err := Read(d, func(tx *Tx) string {
		var keys []string
		for k := range tx.Bucket(small).From(nil) {
			keys = append(keys, string(k))
		}
		return strings.Join(keys, " ")
	})
	if err != nil || got != want {
		t.Errorf("stored: %q, %v; want %q", got, err, want)
	}
}

// inBubble runs a test with an open file.
func inBubble(t *testing.T, o Options, test func(t *testing.T, d *DB)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	synctest.Test(t, func(t *testing.T) {
		d, err := Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		test(t, d)
	})
}

// An operation that fails takes nothing of its group with it, and one that panics reaches its own
// caller alone.
func TestOneOfAGroupFails(t *testing.T) {
	inBubble(t, options(), func(t *testing.T, d *DB) {
		wrong := errors.New("wrong")
		errs := together(t, d, put("a", nil), put("b", wrong), put("c", nil))
		if errs[0] != nil || !errors.Is(errs[1], wrong) || errs[2] != nil {
			t.Errorf("results: %v", errs)
		}
		wantKeys(t, d, "a c")

		panics := &Op{Run: func(tx *Tx) error {
			_ = tx.Bucket(small).Put([]byte("d"), nil)
			panic("mine")
		}}
		errs = together(t, d, put("e", nil), panics)
		if errs[0] != nil || errs[1] == nil || errs[1].Error() != "Do panicked: mine" {
			t.Errorf("results: %v", errs)
		}
		wantKeys(t, d, "a c e")
	})
}

// Where the disk is full, what grows fails and the rest of its group is stored. The file goes on.
func TestFullDiskFailsWhatGrows(t *testing.T) {
	inBubble(t, options(), func(t *testing.T, d *DB) {
		grows := put("grows", nil)
		grows.Grows = true
		full := true
		d.Intercept(func(commit func() error) error {
			if full {
				full = false
				return syscall.ENOSPC
			}
			return commit()
		})
		errs := together(t, d, grows, put("stays", nil))
		if !IsFull(errs[0]) || MayBeStored(errs[0]) || errs[1] != nil {
			t.Errorf("results: %v", errs)
		}
		wantKeys(t, d, "stays")
		if d.Trouble() != nil || d.Ready() != nil {
			t.Errorf("afterwards: %v, %v", d.Trouble(), d.Ready())
		}
	})
}

// Room is asked for what grows, with all that the group needs, and for nothing else.
func TestRoomIsForWhatGrows(t *testing.T) {
	o := options()
	o.Room = func(bytes int64) error {
		if bytes > 100 {
			return syscall.ENOSPC
		}
		return nil
	}
	inBubble(t, o, func(t *testing.T, d *DB) {
		ops := []*Op{put("a", nil), put("b", nil), put("c", nil)}
		ops[0].Grows, ops[0].Bytes = true, 60
		ops[1].Grows, ops[1].Bytes = true, 60
		ops[2].Bytes = 1000
		errs := together(t, d, ops...)
		if (errs[0] == nil) == (errs[1] == nil) || errs[2] != nil {
			t.Errorf("results: %v", errs)
		}
	})
}

// After a commit that failed, nothing of it is left, and nothing more is written: nobody knows what
// such a disk holds. What was durable can be read.
func TestFailedCommitEndsWriting(t *testing.T) {
	inBubble(t, options(), func(t *testing.T, d *DB) {
		together(t, d, put("before", nil))
		broken := errors.New("input/output error")
		d.Intercept(func(func() error) error { return broken })
		err := d.Do(t.Context(), put("lost", nil))
		if !errors.Is(err, broken) || MayBeStored(err) || !strings.Contains(err.Error(), "look at the disk") {
			t.Errorf("the write: %v", err)
		}
		d.Intercept(nil)
		if err := d.Do(t.Context(), put("after", nil)); !errors.Is(err, broken) {
			t.Errorf("a write afterwards: %v", err)
		}
		if !errors.Is(d.Ready(), broken) || !errors.Is(d.Trouble(), broken) {
			t.Errorf("ready: %v, trouble: %v", d.Ready(), d.Trouble())
		}
		wantKeys(t, d, "before")
	})
}

// A commit whose sync failed may be durable, and says so. Where space was lacking the file goes on
// with it; after any other error nothing is read or written.
func TestSyncFailed(t *testing.T) {
	for name, cause := range map[string]error{"full": syscall.ENOSPC, "broken": errors.New("input/output error")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options(), func(t *testing.T, d *DB) {
				d.Intercept(func(commit func() error) error { return errors.Join(commit(), cause) })
				err := d.Do(t.Context(), put("a", nil))
				if unsure := (*UnsureError)(nil); !errors.As(err, &unsure) || !errors.Is(err, cause) || !MayBeStored(err) {
					t.Fatalf("the write: %v", err)
				}
				d.Intercept(nil)
				if name == "broken" {
					if err := d.View(func(*Tx) error { return nil }); !errors.Is(err, cause) {
						t.Errorf("a read: %v", err)
					}
					return
				}
				wantKeys(t, d, "a")
				if err := d.Do(t.Context(), put("b", nil)); err != nil || d.Trouble() != nil {
					t.Errorf("the next write: %v, %v", err, d.Trouble())
				}
			})
		})
	}
}

// What its caller gave up before it began never happens, and Finish gets the result once.
func TestGivenUpNeverHappens(t *testing.T) {
	inBubble(t, options(), func(t *testing.T, d *DB) {
		release := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() {
			_ = d.Update(func(*Tx) error {
				<-release
				return nil
			})
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		finished, returned, o := 0, false, put("a", nil)
		o.Finish = func(err error) {
			if finished++; !errors.Is(err, context.Canceled) {
				t.Errorf("Finish got %v", err)
			}
		}
		wait.Go(func() {
			if err := d.Do(ctx, o); !errors.Is(err, context.Canceled) {
				t.Errorf("Do: %v", err)
			}
			returned = true
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !returned {
			t.Error("Do waited for the operation before")
		}
		close(release)
		wait.Wait()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if finished != 1 {
			t.Errorf("Finish was called %d times", finished)
		}
		for _, err := range []error{d.Do(t.Context(), put("b", nil)), d.View(func(*Tx) error { return nil }), d.Ready()} {
			if !errors.Is(err, errClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
	})
}

// A caller whose context ends while its operation is being committed waits for the result: it may not
// report as given up what is stored.
func TestBegunIsAwaited(t *testing.T) {
	inBubble(t, options(), func(t *testing.T, d *DB) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		d.Intercept(func(commit func() error) error {
			cancel()
			<-release
			return commit()
		})
		result := make(chan error, 1)
		go func() { result <- d.Do(ctx, put("a", nil)) }()
		synctest.Wait()
		select {
		case err := <-result:
			t.Errorf("Do returned %v before the commit", err)
			result <- nil
		default:
		}
		close(release)
		if err := <-result; err != nil {
			t.Errorf("Do: %v", err)
		}
		d.Intercept(nil)
		wantKeys(t, d, "a")
	})
}

// An operation that its caller gives up while the operation before it in the same group runs is not
// run any more: its caller may have changed what Run would read.
func TestGivenUpWithinItsGroup(t *testing.T) {
	inBubble(t, options(), func(t *testing.T, d *DB) {
		ctx, cancel := context.WithCancel(t.Context())
		returned, release := make(chan error, 1), make(chan struct{})
		first := &Op{Run: func(tx *Tx) error {
			cancel()
			if err := <-returned; !errors.Is(err, context.Canceled) {
				t.Errorf("Do: %v", err)
			}
			return tx.Bucket(small).Put([]byte("a"), nil)
		}}
		var wait sync.WaitGroup
		begin := func(do func() error) {
			wait.Go(func() {
				if err := do(); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // so that the writer gets them in this order
		}
		begin(func() error { // keeps the writer busy while the others come
			return d.Update(func(*Tx) error { <-release; return nil })
		})
		begin(func() error { return d.Run(first) })
		begin(func() error {
			returned <- d.Do(ctx, &Op{Run: func(tx *Tx) error {
				t.Error("it ran after Do had returned")
				return tx.Bucket(small).Put([]byte("b"), nil)
			}})
			return nil
		})
		close(release)
		wait.Wait()
		wantKeys(t, d, "a")
	})
}

// A bucket does what its methods say.
func TestBucket(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "a.db"), options())
	write(t, d, map[string][]byte{"small/a": []byte("1"), "small/b": []byte("2"), "small/c": []byte("3"), "large/x": []byte("9")})
	stop := errors.New("stop")
	err := d.Update(func(tx *Tx) error {
		b := tx.Bucket(small)
		b.Dense()
		if err := errors.Join(b.Delete([]byte("b")), b.Delete([]byte("none")), tx.Clear(large)); err != nil {
			return err
		}
		if k, v := b.Cursor().Last(); string(k) != "c" || string(v) != "3" {
			t.Errorf("the last is %s, %s", k, v)
		}
		n := 0
		err := b.ForEach(func([]byte, []byte) error {
			n++
			return stop
		})
		if n != 1 || !errors.Is(err, stop) || b.Len() != 2 || tx.Bucket(large).Len() != 0 {
			t.Errorf("ForEach called %d times: %v; %d and %d keys", n, err, b.Len(), tx.Bucket(large).Len())
		}
		for want := range uint64(3) {
			if got, err := b.NextSequence(); got != want+1 || err != nil {
				t.Errorf("sequence %d, %v", got, err)
			}
		}
		if tx.Format() != 3 || string(b.Raw([]byte("a"))) != "1" || b.Raw([]byte("none")) != nil {
			t.Errorf("format %d, raw %q", tx.Format(), b.Raw([]byte("a")))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantKeys(t, d, "a c")
}

// Wipe leaves nothing in the file of what was deleted, and a copy has all the rest.
func TestWipeAndCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d := open(t, path, options())
	secret := bytes.Repeat([]byte("the secret "), 2000)
	write(t, d, map[string][]byte{"large/secret": secret, "small/kept": []byte("v")})
	if err := d.Update(func(tx *Tx) error { return tx.Bucket(large).Delete([]byte("secret")) }); err != nil {
		t.Fatal(err)
	}
	write(t, d, map[string][]byte{"small/more": []byte("v")}) // frees the pages
	for _, name := range []string{path, path + walSuffix} {
		if b, err := os.ReadFile(name); err != nil || !bytes.Contains(b, secret[:100]) {
			t.Fatalf("the secret is gone from %s before: %v", name, err)
		}
	}
	if err := d.Wipe(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + walSuffix} {
		if b, err := os.ReadFile(name); err != nil || bytes.Contains(b, secret[:100]) {
			t.Errorf("the secret is still in %s: %v", name, err)
		}
	}
	var to bytes.Buffer
	if err := d.CopyTo(&to); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "b.db")
	if err := os.WriteFile(other, to.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, open(t, other, options()), "kept more")
	wantKeys(t, d, "kept more")
}
