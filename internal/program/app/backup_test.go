package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// fillStore stores a few topics with notifications, and a subscription with a secret for each. The
// notifications of two topics are large.
func fillStore(t *testing.T, a *App) {
	t.Helper()
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 5 {
		topic := fmt.Sprintf("https://source.example/%d", i)
		for n := range 10 {
			h, err := a.backend.Head(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			size := 20 << 10 * n
			if i < 3 {
				size = 100 * n
			}
			e := journal.Entry{
				From: begin.Add(time.Duration(n) * time.Second), Until: begin.Add(time.Duration(n+1) * time.Second), Kind: journal.KindChange,
				MediaType: "application/xml", Body: bytes.Repeat([]byte{byte(n)}, size),
			}
			e.SHA256 = sha256.Sum256(e.Body)
			if _, err := a.backend.Append(t.Context(), time.Now(), topic, e, h.Version); err != nil {
				t.Fatal(err)
			}
		}
		s := subscriptions.Subscription{
			Topic: topic, Callback: "https://subscriber.example/", Secret: "a secret of subscribers",
			CreatedAt: begin, VerifiedAt: begin, ExpiresAt: begin.Add(1e6 * time.Second), Cursor: journal.Cursor{Generation: 1},
		}
		s.ID = subscriptions.ID(s.Topic, s.Callback)
		if _, err := a.backend.Update(t.Context(), s.ID, func(subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.Record{Subscription: &s}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// openedApp is a hub of which only the store is open.
func openedApp(t *testing.T, args ...string) *App {
	t.Helper()
	a := newApp(t, args...)
	if err := a.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string { // on a busy machine, a Redis is not compared at once
		if err := a.backend.Ready(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
	return a
}

func backupOf(t *testing.T, a *App) []byte {
	t.Helper()
	b, err := a.backups.make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(b.Content)
	if err := errors.Join(err, b.Content.Close()); err != nil || int64(len(file)) != b.Size {
		t.Fatalf("%d of %d bytes: %v", len(file), b.Size, err)
	}
	return file
}

func sealKeyFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(name, []byte(strings.Repeat("A", 43)+"=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A backup of either kind of store is restored into either, and has the secrets sealed.
func TestRestoreIntoEitherStore(t *testing.T) {
	keys := sealKeyFile(t)
	redis := func() string { return "--redis-url=" + redistest.Standalone(t).URL() }
	for name, pair := range map[string][2]func() string{
		"folder to folder": {func() string { return "--drain=1s" }, func() string { return "--drain=1s" }},
		"folder to Redis":  {func() string { return "--drain=1s" }, redis},
		"Redis to folder":  {redis, func() string { return "--drain=1s" }},
	} {
		t.Run(name, func(t *testing.T) {
			from := openedApp(t, "--seal-key-file="+keys, "--min-free-disk=0", pair[0]())
			fillStore(t, from)
			file := backupOf(t, from)
			if bytes.Contains(file, []byte("secret of subscribers")) || bytes.Contains(file, []byte("c2VjcmV0")) {
				t.Error("the file has a secret as it is")
			}
			if err := from.backend.Close(); err != nil {
				t.Fatal(err)
			}
			to := newApp(t, "--seal-key-file="+keys, "--min-free-disk=0", pair[1]())
			counts, err := Restore(t.Context(), to.cfg, zap.NewNop(), bytes.NewReader(file), RestoreOptions{})
			if err != nil || counts.Notifications != 50 || counts.Topics != 5 || counts.Subscriptions != 5 {
				t.Fatalf("%+v, %v", counts, err)
			}
			if _, err := Restore(t.Context(), to.cfg, zap.NewNop(), bytes.NewReader(file), RestoreOptions{}); !errors.Is(err, ErrNotEmpty) {
				t.Errorf("restored twice: %v", err)
			}
			if err := to.openStore(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = to.backend.Close() }()
			again := backupOf(t, to)
			if a, b := bytes.Count(file, []byte("\n")), bytes.Count(again, []byte("\n")); a != b {
				t.Errorf("a backup of the restored store has %d lines, want %d", b, a)
			}
			rec, err := to.backend.Get(t.Context(), subscriptions.ID("https://source.example/3", "https://subscriber.example/"))
			if err != nil || rec.Subscription == nil || rec.Subscription.Secret != "a secret of subscribers" {
				t.Errorf("%+v, %v", rec.Subscription, err)
			}
		})
	}
}

// A restore that was interrupted leaves a store that no hub opens and nothing is exported
// from, until the same file is restored to its end.
func TestInterruptedRestore(t *testing.T) {
	from := openedApp(t, "--min-free-disk=0")
	fillStore(t, from)
	file := backupOf(t, from)
	other := backupOf(t, from) // has another time
	if err := from.backend.Close(); err != nil {
		t.Fatal(err)
	}
	for name, arg := range map[string]string{"folder": "--drain=1s", "Redis": "--redis-url=" + redistest.Standalone(t).URL()} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, "--min-free-disk=0", arg)
			ctx, cancel := context.WithCancel(t.Context())
			steps := RestoreOptions{Progress: func(step string, _, _ int64) {
				if step == "restored" {
					cancel()
				}
			}}
			big := bytes.NewReader(file)
			if _, err := Restore(ctx, a.cfg, zap.NewNop(), &interrupting{Reader: big, after: int64(len(file)) * 3 / 2, cancel: cancel}, steps); !errors.Is(err, context.Canceled) {
				t.Fatalf("interrupted: %v", err)
			}
			if err := a.openStore(t.Context()); !errors.Is(err, ErrInterrupted) {
				t.Errorf("a hub: %v", err)
			}
			if _, err := Export(t.Context(), a.cfg, zap.NewNop(), io.Discard, ExportOptions{Secrets: PlainSecrets}); !errors.Is(err, ErrInterrupted) {
				t.Errorf("an export: %v", err)
			}
			if name == "folder" {
				if _, err := CheckFolder(a.cfg.DataDir, func(what string, why error) { t.Error(what, why) }); !errors.Is(err, ErrInterrupted) {
					t.Errorf("a check: %v", err)
				}
			}
			if _, err := Restore(t.Context(), a.cfg, zap.NewNop(), bytes.NewReader(other), RestoreOptions{}); !errors.Is(err, ErrInterrupted) {
				t.Errorf("another file: %v", err)
			}
			if _, err := Restore(t.Context(), a.cfg, zap.NewNop(), bytes.NewReader(file), RestoreOptions{}); err != nil {
				t.Errorf("the same file: %v", err)
			}
			if err := a.openStore(t.Context()); err != nil {
				t.Errorf("a hub: %v", err)
			} else if err := a.backend.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of two restores of different files that begin at the same time, one is refused.
func TestRestoresAtTheSameTime(t *testing.T) {
	for name, arg := range map[string]string{"folder": "--drain=1s", "Redis": "--redis-url=" + redistest.Standalone(t).URL()} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, "--min-free-disk=0", arg)
			s, err := openWhole(t.Context(), &a.cfg, storeOptions{log: zap.NewNop()})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			s.hubStore = overtaken{s.hubStore}
			if err := beginRestore(t.Context(), s, "mine"); !errors.Is(err, ErrInterrupted) {
				t.Errorf("%v, want %v", err, ErrInterrupted)
			}
		})
	}
}

// overtaken is a store in which another restore begins as soon as this one has looked for others.
type overtaken struct{ hubStore }

func (o overtaken) Kept(ctx context.Context, name string) ([]byte, error) {
	kept, err := o.hubStore.Kept(ctx, name)
	if err == nil {
		_, err = o.Keep(ctx, name, []byte("another file"), 0)
	}
	return kept, err
}

// interrupting cancels when so much was read of it.
type interrupting struct {
	*bytes.Reader
	after  int64
	cancel func()
}

func (i *interrupting) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p[:min(len(p), 4<<10)])
	if i.after -= int64(n); i.after < 0 {
		i.cancel()
	}
	return n, err
}

// Nothing is restored beside hubs that run.
func TestRestoreBesideHubs(t *testing.T) {
	from := openedApp(t, "--min-free-disk=0")
	file := backupOf(t, from)
	if err := from.backend.Close(); err != nil {
		t.Fatal(err)
	}
	url := "--redis-url=" + redistest.Standalone(t).URL()
	running := newApp(t, url, "--node-id=the-hub")
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = running.Stop(context.WithoutCancel(t.Context())) }()
	eventually(t, func() string {
		_, err := Restore(t.Context(), newApp(t, url).cfg, zap.NewNop(), bytes.NewReader(file), RestoreOptions{})
		if !errors.Is(err, ErrHubsRun) || !strings.Contains(err.Error(), "the-hub") {
			return fmt.Sprint("Restore: ", err)
		}
		return ""
	})
}

// Backups are made one at a time, leave no file, and use no room that the store needs.
func TestBackupsOfAHub(t *testing.T) {
	keys := sealKeyFile(t)
	a := openedApp(t, "--min-free-disk=0", "--seal-key-file="+keys)
	defer func() { _ = a.backend.Close() }()
	fillStore(t, a)
	if err := os.Remove(keys); err != nil { // the hub goes on with what it read
		t.Fatal(err)
	}
	first, err := a.backups.make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.backups.make(t.Context()); !errors.Is(err, admin.ErrBackupRuns) {
		t.Errorf("a second one while the first is read: %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(a.cfg.DataDir, "*.part")); len(files) > 0 {
		t.Errorf("a crash would leave %v", files)
	}
	// The store goes on, and the file stays as it was.
	topic := "https://source.example/0"
	h, err := a.backend.Head(t.Context(), topic)
	if err == nil {
		err = a.backend.Remove(t.Context(), topic, h.Version)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(first.Content)
	if err := errors.Join(err, first.Content.Close()); err != nil || int64(len(text)) != first.Size || !bytes.Contains(text, []byte(uuid.UUID(h.ID).String())) {
		t.Errorf("%d of %d bytes, %v", len(text), first.Size, err)
	}
	a.cfg.MinFreeDisk = 1 << 60
	if _, err := a.backups.make(t.Context()); !errors.Is(err, admin.ErrBackupRoom) {
		t.Errorf("without room: %v", err)
	}
	a.cfg.MinFreeDisk = 0
	dir := a.cfg.DataDir
	a.cfg.DataDir = filepath.Join(dir, "missing")
	if _, err := a.backups.make(t.Context()); !errors.Is(err, admin.ErrBackupRoom) {
		t.Errorf("where no file can be: %v", err)
	}
	a.cfg.DataDir = dir
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.backups.make(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for it: %v", err)
	}
	backupOf(t, a)
}
