package redisstore

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// fill stores n subscriptions.
func fill(t testing.TB, s *Store, n int) []subscriptions.Subscription {
	t.Helper()
	subs := make([]subscriptions.Subscription, n)
	for i := range subs {
		subs[i] = subscriptionNo(i)
	}
	store(t, s, subs)
	return subs
}

// store stores subscriptions as quickly as it can.
func store(t testing.TB, s *Store, subs []subscriptions.Subscription) {
	t.Helper()
	for _, cmd := range runEach(t.Context(), s.conn, replaceScript, subs, func(sub subscriptions.Subscription) call {
		return s.records.replaceCall(sub.ID, stored{}, s.records.packRecord(subscriptions.Record{Subscription: &sub}), newToken(), nil)
	}) {
		if won, err := cmd.Bool(); err != nil || !won {
			t.Fatalf("%t, %v", won, err)
		}
	}
}

// Invariant 3: a hub was frozen past its lease with unstored results. It stores them after
// its successor has stored newer ones. None of them has an effect.
func TestLateCommitsOfAFrozenHubDoNothing(t *testing.T) {
	stores := clientsOf(t, 2)
	frozen, owner := stores[0], stores[1]
	subs := fill(t, owner, 50)
	attempt := []subscriptions.Attempt{{At: subs[0].CreatedAt, NotificationID: uuid.New(), Number: 1, Status: 500}}
	gap := []journal.Gap{{Count: 3, Reason: journal.GapGaveUp}}
	var late, newer []subscriptions.Commit
	for i := range subs {
		c := subs[i].Cursor
		c.Position += 100
		c.Attempt = 2
		old := subscriptions.Commit{ID: subs[i].ID, Cursor: c, Attempts: attempt}
		switch i % 3 {
		case 1:
			old.Gaps = gap
		case 2:
			old.End, old.EndedAt, old.Lease = subscriptions.EndGone, subs[i].CreatedAt, subs[i].VerifiedAt
		}
		late = append(late, old)
		c.Position += 100 // 100 ns later, which a number of Lua does not show
		c.Attempt, c.Seq = 0, 102
		newer = append(newer, subscriptions.Commit{ID: subs[i].ID, Cursor: c})
	}
	for range 2 {
		if err := owner.Commit(t.Context(), newer); err != nil {
			t.Fatal(err)
		}
		if err := frozen.Commit(t.Context(), late); err != nil {
			t.Fatal(err)
		}
	}
	for i := range subs {
		got := get(t, owner, subs[i].ID).Subscription
		if got.Cursor != newer[i].Cursor {
			t.Fatalf("a late commit moved the cursor back from %+v to %+v", newer[i].Cursor, got.Cursor)
		}
		attempts, err := owner.Attempts(t.Context(), subs[i].ID)
		if len(attempts) > 0 || len(got.Gaps) > 0 || got.EndReason != "" || err != nil {
			t.Fatalf("a late commit left %d attempts, %d gaps and the end %q; %v", len(attempts), len(got.Gaps), got.EndReason, err)
		}
	}
}

// Invariant 3: the script finds the greater one of two cursors as Go does, be the
// difference in any byte.
func TestCommitOrdersCursorsAsGoDoes(t *testing.T) {
	s := clientsOf(t, 1)[0]
	base := subscriptionNo(0).Cursor
	base.Generation |= 1 << 63
	base.NextAttemptAt, base.FirstAttemptAt, base.LastStatus = base.Until, base.Until, 200
	cursors := []journal.Cursor{base}
	vary := func(change func(c *journal.Cursor)) {
		c := base
		change(&c)
		cursors = append(cursors, c)
	}
	for bit := range 64 {
		vary(func(c *journal.Cursor) { c.Generation ^= 1 << bit })
		vary(func(c *journal.Cursor) { c.Position ^= 1 << bit })
		vary(func(c *journal.Cursor) { c.Nonce ^= 1 << bit })
		vary(func(c *journal.Cursor) { c.Seq ^= 1 << bit })
		vary(func(c *journal.Cursor) { c.Nudge ^= 1 << bit })
		vary(func(c *journal.Cursor) { c.Attempt ^= 1 << bit })
		vary(func(c *journal.Cursor) { c.Step ^= 1 << bit })
		if bit < 60 {
			vary(func(c *journal.Cursor) { c.NextAttemptAt = c.NextAttemptAt.Add(1 << bit) })
			vary(func(c *journal.Cursor) { c.FirstAttemptAt = c.FirstAttemptAt.Add(-1 << bit) })
			vary(func(c *journal.Cursor) { c.Until = c.Until.Add(1 << bit) })
		}
	}
	for _, status := range []int{-4, -1, 0, 199, 201} {
		vary(func(c *journal.Cursor) { c.LastStatus = status })
	}
	subs := make([]subscriptions.Subscription, len(cursors))
	var commits []subscriptions.Commit
	for i := range subs {
		subs[i] = subscriptionNo(i)
		subs[i].Cursor = base
		commits = append(commits, subscriptions.Commit{ID: subs[i].ID, Cursor: cursors[i]})
	}
	store(t, s, subs)
	for i := range subs { // and the other way round
		if i%2 == 1 {
			if err := s.Commit(t.Context(), commits[i:i+1]); err != nil {
				t.Fatal(err)
			}
			commits[i].Cursor = base
		}
	}
	if err := s.Commit(t.Context(), commits); err != nil {
		t.Fatal(err)
	}
	for i := range subs {
		if got, want := get(t, s, subs[i].ID).Subscription.Cursor, journal.Merge(base, cursors[i]); got != want {
			t.Errorf("of %+v and %+v, %+v is stored", base, cursors[i], got)
		}
	}
}

// All commits of one group for one subscription count in their order, be they
// plain or not.
func TestCommitsOfOneSubscriptionKeepTheirOrder(t *testing.T) {
	s := clientsOf(t, 1)[0]
	sub := fill(t, s, 1)[0]
	var commits []subscriptions.Commit
	for i := range 4 {
		c := sub.Cursor
		c.Position += journal.Position(i + 1)
		commit := subscriptions.Commit{ID: sub.ID, Cursor: c, Attempts: []subscriptions.Attempt{{Number: uint32(i + 1)}}}
		if i == 1 {
			commit.Gaps = []journal.Gap{{Count: 1, Reason: journal.GapGaveUp}}
		}
		commits = append(commits, commit)
	}
	if err := s.Commit(t.Context(), commits); err != nil {
		t.Fatal(err)
	}
	attempts, err := s.Attempts(t.Context(), sub.ID)
	if err != nil || len(attempts) != 4 {
		t.Errorf("%d attempts, %v", len(attempts), err)
	}
	if got := get(t, s, sub.ID).Subscription; len(got.Gaps) != 1 || got.Cursor != commits[3].Cursor {
		t.Errorf("%d gaps, cursor %+v", len(got.Gaps), got.Cursor)
	}
}

// A group has a commit for a subscription that is not stored, and two for a stored one, the
// greater one first.
func TestPlainCommits(t *testing.T) {
	s := clientsOf(t, 1)[0]
	sub := fill(t, s, 1)[0]
	unknown := subscriptionNo(1)
	for i := 2; subscriptions.Shard(unknown.ID)%recordSlots != subscriptions.Shard(sub.ID)%recordSlots; i++ {
		unknown = subscriptionNo(i)
	}
	tries := func(n uint32) []subscriptions.Attempt { return []subscriptions.Attempt{{Number: n}} }
	one, two := sub.Cursor, sub.Cursor
	one.Position++
	two.Position += 2
	err := s.Commit(t.Context(), []subscriptions.Commit{
		{ID: unknown.ID, Cursor: two, Attempts: tries(1)},
		{ID: sub.ID, Cursor: two, Attempts: tries(2)},
		{ID: sub.ID, Cursor: one, Attempts: tries(3)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, sub.ID).Subscription.Cursor; got != two {
		t.Errorf("the cursor is %+v, want the greater one of the group", got)
	}
	for id, want := range map[uuid.UUID][]subscriptions.Attempt{sub.ID: tries(2), unknown.ID: nil} {
		if got, err := s.Attempts(t.Context(), id); err != nil || !slices.Equal(got, want) {
			t.Errorf("attempts %+v, %v, want %+v", got, err, want)
		}
	}
	if n := s.conn.client.HLen(t.Context(), s.conn.key.recordsOf(sub.ID).cursors).Val(); n != 1 {
		t.Errorf("a commit for a subscription that is not stored left %d cursors", n-1)
	}
}

// A cursor whose first bytes are not there, or of a newer version, has no place
// in the order: the commit is refused, and the others are not.
func TestCommitToACursorThatCannotBeRead(t *testing.T) {
	s := clientsOf(t, 1)[0]
	subs := fill(t, s, 300)
	whole := journal.PackCursor(subs[0].Cursor)
	newer := slices.Concat([]byte{whole[0] + 1}, whole[1:])
	for _, value := range [][]byte{newer, whole[:30], {0xff}} {
		s.conn.client.HSet(t.Context(), s.conn.key.recordsOf(subs[0].ID).cursors, subs[0].ID[:], value)
		commits := nextCommits(subs, 0, len(subs))
		err := s.Commit(t.Context(), commits)
		if !errors.Is(err, journal.ErrPacked) || !strings.Contains(err.Error(), subs[0].ID.String()) || strings.Contains(err.Error(), subs[1].ID.String()) {
			t.Errorf("%x: %v", value, err)
		}
		for i := range commits[1:] {
			if got := get(t, s, commits[i+1].ID).Subscription.Cursor; got != commits[i+1].Cursor {
				t.Fatalf("the commit beside it was not stored")
			}
		}
		if got := s.conn.client.HGet(t.Context(), s.conn.key.recordsOf(subs[0].ID).cursors, string(subs[0].ID[:])).Val(); got != string(value) {
			t.Errorf("%x was replaced by %x", value, got)
		}
	}
}

// What cannot be stored of a group is named, with all later commits of its
// subscription, and the others are stored: whether it is one record or a whole slot.
func TestCommitBesideWhatCannotBeStored(t *testing.T) {
	s := clientsOf(t, 1)[0]
	subs := fill(t, s, 300)
	attempts := s.conn.key.recordsOf(subs[0].ID).attempts(subs[0].ID)
	cursors := s.conn.key.recordsOf(subs[1].ID).cursors
	slot := func(i int) string { return s.conn.key.recordsOf(subs[i].ID).cursors }
	// Of a wrong type, as nothing of ours makes them.
	if err := errors.Join(s.conn.client.Set(t.Context(), attempts, "x", 0).Err(), s.conn.client.Rename(t.Context(), cursors, cursors+":away").Err(), s.conn.client.Set(t.Context(), cursors, "x", 0).Err()); err != nil {
		t.Fatal(err)
	}
	broken := func(i int) bool { return slot(i) == cursors || i == 0 }
	group := func(n int) (commits []subscriptions.Commit) {
		for i := range subs {
			c := subs[i].Cursor
			c.Position += journal.Position(n)
			commit := subscriptions.Commit{ID: subs[i].ID, Cursor: c, Attempts: []subscriptions.Attempt{{Number: uint32(n)}}}
			if i%5 == 3 {
				commit.Gaps = []journal.Gap{{Count: 1, Reason: journal.GapGaveUp}}
			}
			commits = append(commits, commit)
		}
		return commits
	}
	var failed *subscriptions.CommitError
	if err := s.Commit(t.Context(), group(1)); !errors.As(err, &failed) {
		t.Fatalf("%v, want a *CommitError", err)
	}
	for i := range subs {
		if got := failed.Failed[subs[i].ID] != nil; got != broken(i) {
			t.Errorf("commit %d failed: %v", i, failed.Failed[subs[i].ID])
		}
		if !broken(i) && get(t, s, subs[i].ID).Subscription.Cursor.Position != subs[i].Cursor.Position+1 {
			t.Errorf("commit %d was not stored", i)
		}
	}
	if err := errors.Join(s.conn.client.Del(t.Context(), attempts).Err(), s.conn.client.Rename(t.Context(), cursors+":away", cursors).Err()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), group(1)); err != nil {
		t.Fatal(err)
	}
	for i := range subs {
		tries, err := s.Attempts(t.Context(), subs[i].ID)
		if got := get(t, s, subs[i].ID).Subscription; err != nil || got.Cursor.Position != subs[i].Cursor.Position+1 || len(tries) != 1 || len(got.Gaps) != len(group(1)[i].Gaps) {
			t.Errorf("stored of commit %d is %+v with %d attempts, %v", i, got, len(tries), err)
		}
	}
}

// A group of any size and with any number of attempts is stored, and so are gaps
// of many subscriptions.
func TestLargeGroups(t *testing.T) {
	s := clientsOf(t, 1)[0]
	subs := fill(t, s, 4200)
	var plain, gaps []subscriptions.Commit
	for i := range subs {
		c := subs[i].Cursor
		c.Position++
		tries := make([]subscriptions.Attempt, i%70)
		for n := range tries {
			tries[n].Number = uint32(n + 1)
		}
		plain = append(plain, subscriptions.Commit{ID: subs[i].ID, Cursor: c, Attempts: tries})
		c.Position++
		if i%3 == 0 {
			gaps = append(gaps, subscriptions.Commit{ID: subs[i].ID, Cursor: c, Gaps: []journal.Gap{{Count: uint64(i), Reason: journal.GapRetention}}})
		}
	}
	for _, commits := range [][]subscriptions.Commit{plain, gaps} {
		if err := s.Commit(t.Context(), commits); err != nil {
			t.Fatal(err)
		}
	}
	for i := range subs {
		if i%100 > 2 {
			continue
		}
		got := get(t, s, subs[i].ID).Subscription
		tries, err := s.Attempts(t.Context(), subs[i].ID)
		if want := min(i%70, subscriptions.MaxAttempts); err != nil || len(tries) != want || want > 0 && tries[want-1].Number != uint32(i%70) {
			t.Errorf("%d: %d attempts, %v", i, len(tries), err)
		}
		if i%3 == 0 && (len(got.Gaps) != 1 || got.Cursor != gaps[i/3].Cursor) || i%3 > 0 && got.Cursor != plain[i].Cursor {
			t.Errorf("%d: %d gaps, cursor %+v", i, len(got.Gaps), got.Cursor)
		}
	}
}

// The server may have forgotten the scripts, as after a failover.
func TestScriptsAreSentAgain(t *testing.T) {
	s := clientsOf(t, 1)[0]
	sub := fill(t, s, 1)[0]
	c := sub.Cursor
	c.Position++
	if err := s.conn.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []subscriptions.Commit{{ID: sub.ID, Cursor: c}}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, sub.ID).Subscription.Cursor; got != c {
		t.Errorf("the cursor is %+v", got)
	}
}

// The cost of deliveries on Redis: of 1,000 that are committed as one group, no
// more than 0.05 commands each, those that scripts call included.
func TestCommandsOfAGroup(t *testing.T) {
	url := redistest.Standalone(t).URL() // of our own, since others' commands are counted too
	s := openStore(t, Options{URL: url, Timeout: patience})
	subs := fill(t, s, 1000)
	commits := make([]subscriptions.Commit, len(subs))
	for i := range subs {
		commits[i] = subscriptions.Commit{ID: subs[i].ID, Cursor: subs[i].Cursor}
		commits[i].Cursor.Position++
	}
	if err := commitScript.Load(t.Context(), s.conn.client).Err(); err != nil {
		t.Fatal(err)
	}
	before := calls(t, s)
	if err := s.Commit(t.Context(), commits); err != nil {
		t.Fatal(err)
	}
	n := calls(t, s) - before - 1 // INFO itself
	t.Logf("%d commands for %d deliveries", n, len(commits))
	if n > 50 {
		t.Errorf("%d commands for %d deliveries, want 50 at most", n, len(commits))
	}
}

// calls is how many commands the server counts.
func calls(t testing.TB, s *Store) (n int) {
	t.Helper()
	info, err := s.conn.client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if _, rest, ok := strings.Cut(line, ":calls="); ok {
			count, _, _ := strings.Cut(rest, ",")
			one, err := strconv.Atoi(count)
			if err != nil {
				t.Fatal(err)
			}
			n += one
		}
	}
	return n
}

// nextCommits move some cursors on by one entry, and remember that.
func nextCommits(subs []subscriptions.Subscription, from, n int) []subscriptions.Commit {
	commits := make([]subscriptions.Commit, n)
	for i := range commits {
		sub := &subs[(from+i)%len(subs)]
		sub.Cursor.Position++
		sub.Cursor.Seq++
		commits[i] = subscriptions.Commit{ID: sub.ID, Cursor: sub.Cursor}
	}
	return commits
}
