package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/engine/transfer"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
)

var errAway = errors.New("the store is away")

// failing is a store of which one method fails the first time that it is called.
type failing struct {
	memory
	method string
	failed atomic.Bool
}

func (f *failing) call(method string) error {
	if method == f.method && f.failed.CompareAndSwap(false, true) {
		return errAway
	}
	return nil
}

func (f *failing) Head(ctx context.Context, topic string) (journal.Head, error) {
	if err := f.call("Head"); err != nil {
		return journal.Head{}, err
	}
	return f.memory.Head(ctx, topic)
}

func (f *failing) Read(ctx context.Context, topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	if err := f.call("Read"); err != nil {
		return nil, err
	}
	return f.memory.Read(ctx, topic, after, limit, maxBytes)
}

func (f *failing) Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error) {
	if err := f.call("Body"); err != nil {
		return nil, err
	}
	return f.memory.Body(ctx, topic, e)
}

func (f *failing) Intervals(ctx context.Context, topic string) ([]journal.Interval, error) {
	if err := f.call("Intervals"); err != nil {
		return nil, err
	}
	return f.memory.Intervals(ctx, topic)
}

func (f *failing) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error) {
	if err := f.call("Topics"); err != nil {
		return nil, err
	}
	return f.memory.Topics(ctx, partition, after, limit)
}

func (f *failing) PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error) {
	if err := f.call("PingRecords"); err != nil {
		return nil, err
	}
	return f.memory.PingRecords(ctx, partition, after, limit)
}

func (f *failing) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	if err := f.call("List"); err != nil {
		return nil, err
	}
	return f.memory.List(ctx, shard, after, limit)
}

func (f *failing) Restore(ctx context.Context, h journal.Head, remembered []journal.Interval) error {
	if err := f.call("Restore"); err != nil {
		return err
	}
	return f.memory.Restore(ctx, h, remembered)
}

func (f *failing) Refill(ctx context.Context, topic string, entries []journal.Entry) (int, error) {
	if err := f.call("Refill"); err != nil {
		return 0, err
	}
	return f.memory.Refill(ctx, topic, entries)
}

func (f *failing) PingRecord(ctx context.Context, topic string) (journal.PingRecord, error) {
	if err := f.call("PingRecord"); err != nil {
		return journal.PingRecord{}, err
	}
	return f.memory.PingRecord(ctx, topic)
}

func (f *failing) Ping(ctx context.Context, now time.Time, topics []string) error {
	if err := f.call("Ping"); err != nil {
		return err
	}
	return f.memory.Ping(ctx, now, topics)
}

func (f *failing) Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	if err := f.call("Update"); err != nil {
		return subscriptions.Record{}, err
	}
	return f.memory.Update(ctx, id, change)
}

// few is a store with a little of everything.
func few(t *testing.T) memory {
	t.Helper()
	m, topic := newMemory(), topicName(0)
	h := m.publish(t, topic, 3)
	m.put(t, subscriptions.Record{Subscription: subscription(topic, 0, h.Last)})
	if err := m.Ping(t.Context(), at(7), []string{topic}); err != nil {
		t.Fatal(err)
	}
	return m
}

// An export that failed, wherever that was, has an error and leaves a file that no import accepts.
func TestExportFailsWithTheStore(t *testing.T) {
	from, o := few(t), transfer.ExportOptions{Secrets: transfer.SecretsPlain, Notifications: true}
	for _, method := range []string{"Topics", "Intervals", "Read", "PingRecords", "List"} {
		var out bytes.Buffer
		f := &failing{memory: from, method: method}
		if _, err := transfer.Export(t.Context(), &out, f, o); !errors.Is(err, errAway) {
			t.Errorf("%s failed: %v", method, err)
		}
		if _, err := transfer.Check(t.Context(), bytes.NewReader(out.Bytes()), nil, nil); err == nil {
			t.Errorf("%s failed, and the file looks whole", method)
		}
	}
}

// An import that failed, wherever that was, is finished by another import of the same file.
func TestImportIsTriedAgain(t *testing.T) {
	from := few(t)
	file, _ := export(t, from, transfer.ExportOptions{Secrets: transfer.SecretsPlain, Notifications: true})
	want := newMemory()
	load(t, want, file, transfer.ImportOptions{})
	for _, method := range []string{"Refill", "Head", "Restore", "PingRecord", "Ping", "Update"} {
		to := &failing{memory: newMemory(), method: method}
		if _, err := transfer.Import(t.Context(), bytes.NewReader(file), to, transfer.ImportOptions{}); !errors.Is(err, errAway) {
			t.Errorf("%s failed: %v", method, err)
		}
		load(t, to.memory, file, transfer.ImportOptions{})
		got, expect := stateOf(t, to.memory), stateOf(t, want)
		if len(got.Heads) != 1 || len(got.Pings) != len(expect.Pings) || len(got.Records) != len(expect.Records) || got.Heads[topicName(0)].Entries != 3 {
			t.Errorf("%s failed, and the second import left %+v, want %+v", method, got, expect)
		}
	}
}

// A backup has what is left of a topic that retention trims, or that is damaged, while it is read.
func TestBackupWhileNotificationsGo(t *testing.T) {
	topic := topicName(0)
	for name, lose := range map[string]func(t *testing.T, m memory){
		"trimmed": func(t *testing.T, m memory) {
			t.Helper()
			if _, err := m.Trim(t.Context(), topic, journal.Cut{Before: at(3), KeepBytes: -1}); err != nil {
				t.Fatal(err)
			}
		},
		"damaged": func(t *testing.T, m memory) { t.Helper(); m.damage(t, topic, 2, storetest.DamagedEntry) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			h := m.publish(t, topic, 6)
			var out bytes.Buffer
			losing := &losingStore{memory: m, lose: func() { lose(t, m) }}
			told, err := transfer.Export(t.Context(), &out, losing, transfer.ExportOptions{Secrets: transfer.SecretsPlain, Notifications: true})
			if err != nil {
				t.Fatal(err)
			}
			to := newMemory()
			load(t, to, out.Bytes(), transfer.ImportOptions{})
			got, err := to.Head(t.Context(), topic)
			if err != nil || got.Last != h.Last || told.Notifications >= 6 || told.Notifications < 3 || (told.Damaged > 0) != (name == "damaged") {
				t.Errorf("%+v, %+v, %v", told, got, err)
			}
		})
	}
}

// losingStore loses notifications after the heads of its topics were read.
type losingStore struct {
	memory
	lose func()
	lost bool
}

func (l *losingStore) Intervals(ctx context.Context, topic string) ([]journal.Interval, error) {
	if !l.lost {
		l.lost = true
		l.lose()
	}
	return l.memory.Intervals(ctx, topic)
}

// A file says in its first line how its secrets are written. A line that does otherwise is refused: a
// secret that was sealed may not be read as a plain one, nor the other way round.
func TestSecretsAreAsTheFirstLineSays(t *testing.T) {
	from, keys := few(t), keysOf(t, 1)
	plain, _ := export(t, from, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	_, rest, _ := strings.Cut(string(plain), "\n")
	for says, o := range map[string]transfer.ExportOptions{
		"were left out": {Secrets: transfer.SecretsLeftOut}, "is not sealed": {Keys: keys},
	} {
		file, _ := export(t, from, o)
		first, _, _ := strings.Cut(string(file), "\n")
		if _, err := transfer.Check(t.Context(), strings.NewReader(first+"\n"+rest), keys, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
	if _, err := transfer.Export(t.Context(), io.Discard, from, transfer.ExportOptions{Secrets: transfer.SecretsSealed}); !errors.Is(err, transfer.ErrNoKey) {
		t.Errorf("sealed without a key: %v", err)
	}
}

// Two files never have the same name, and naming a file reads nothing of it away.
func TestNameOfAFile(t *testing.T) {
	one, two := newMemory(), newMemory()
	first, _ := export(t, one, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	var out bytes.Buffer
	if _, err := transfer.Export(t.Context(), &out, two, transfer.ExportOptions{Secrets: transfer.SecretsPlain, Now: at(101)}); err != nil {
		t.Fatal(err)
	}
	file := bytes.NewReader(first)
	name, err := transfer.Name(file)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := io.ReadAll(file); err != nil || !bytes.Equal(left, first) {
		t.Errorf("left to read: %d of %d bytes, %v", len(left), len(first), err)
	}
	if again, err := transfer.Name(file); err != nil || again != name {
		t.Errorf("the same file is %s and %s: %v", name, again, err)
	}
	if other, err := transfer.Name(bytes.NewReader(out.Bytes())); err != nil || other == name {
		t.Errorf("another file is %s, too: %v", other, err)
	}
	if name, err := transfer.Name(strings.NewReader("no line")); err == nil {
		t.Errorf("a file without a line is %s", name)
	}
}

// Reading a large file ends when nobody waits for it any more.
func TestReadingEndsWithItsContext(t *testing.T) {
	file, _ := export(t, few(t), transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := transfer.Check(ctx, bytes.NewReader(file), nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
