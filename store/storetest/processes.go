package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// each is how many notifications, and subscriptions, each of two processes stores.
const each = 40

// RunProcesses checks that two processes can use one store at once. Other runs Child with the
// same store in a process of its own. The store is empty.
func RunProcesses(t T, s Store, other *exec.Cmd) {
	k := &kit{T: t, h: &Harness{Store: s}}
	shared := k.subscribed(0)
	var out, errs strings.Builder
	other.Stdout, other.Stderr = &out, &errs
	k.ok(other.Start(), "starting the other process")
	var own strings.Builder
	err := work(t.Context(), s, "parent", &own)
	if waited := other.Wait(); waited != nil {
		t.Fatalf("the other process: %v: %s", waited, errs.String())
	}
	k.ok(err, "the work of this process")

	acked := strings.Fields(own.String() + out.String())
	entries := k.read(topicName, journal.Anchor{})
	var stored []string
	for i, e := range entries {
		stored = append(stored, e.ID.String())
		k.same("seq", e.Seq, uint64(i)+1)
		k.expect(i == 0 || e.Position > entries[i-1].Position, "entry %d has a position that is not after the one before", i)
	}
	k.same("the notifications, as both processes acknowledged them", slices.Sorted(slices.Values(stored)), slices.Sorted(slices.Values(acked)))
	k.same("the entries that the head counts", k.head(topicName).Entries, int64(2*each))
	for _, process := range []string{"parent", "child"} {
		for i := range each {
			want := subscriptionOf(process, i)
			k.same("a subscription", k.get(want.ID).Subscription, &want)
		}
	}
	k.same("the cursor that both committed", k.get(shared.ID).Subscription.Cursor, moved(shared.Cursor, each))
	k.same("the pings", k.pingRecord(topicName).Pings, uint64(2*each))
}

// Child is what the other process of RunProcesses does. It writes to out.
func Child(ctx context.Context, s Store, out io.Writer) error { return work(ctx, s, "child", out) }

// work stores notifications and subscriptions, commits the cursor of one subscription and pings,
// while another process does the same. It writes the ids of its notifications to out.
func work(ctx context.Context, s Store, process string, out io.Writer) error {
	shared := subscription(0)
	for i := range each {
		for {
			h, err := s.Head(ctx, topicName)
			if err != nil {
				return fmt.Errorf("head: %w", err)
			}
			e, err := s.Append(ctx, time.Now(), topicName, plain(fmt.Sprint(process, i)), h.Version)
			if errors.Is(err, journal.ErrHeadMoved) {
				continue // the other process was first
			}
			if err != nil {
				return fmt.Errorf("append: %w", err)
			}
			_, _ = fmt.Fprintln(out, e.ID)
			break
		}
		sub := subscriptionOf(process, i)
		update := func(subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.Record{Subscription: &sub}, nil
		}
		err := errors.Join(errOf(s.Update(ctx, sub.ID, update)),
			s.Commit(ctx, []subscriptions.Commit{{ID: shared.ID, Cursor: moved(shared.Cursor, i+1)}}),
			s.Ping(ctx, start, []string{topicName}))
		if err != nil {
			return err
		}
	}
	return nil
}

func subscriptionOf(process string, i int) subscriptions.Subscription {
	if process == "child" {
		i += each
	}
	return subscription(1 + i)
}
