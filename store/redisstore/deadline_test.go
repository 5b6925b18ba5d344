package redisstore

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A deadline is by the clock of the server, however that differs, and never later than the caller waits.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeadlines()
		history, other := "1:a", "1:a"
		server := func() time.Duration { return time.Since(d.start) - 3*time.Hour + 1e6*time.Hour } // what its clock shows
		until := func(ctx context.Context) time.Duration {
			us, err := strconv.ParseInt(d.of(ctx, 7, &history, time.Second), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(us)*time.Microsecond - server()
		}
		if got := d.of(t.Context(), 7, &history, time.Second); got != "0" {
			t.Errorf("of a clock that nobody knows: %s", got)
		}
		d.saw(7, &history, server().Microseconds())
		time.Sleep(time.Hour)
		if got := until(t.Context()); got != time.Second {
			t.Errorf("after %v, and not a second", got)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if got := until(soon); got != time.Millisecond {
			t.Errorf("after %v, and not with the context", got)
		}
		at := server()
		time.Sleep(time.Millisecond) // the answer is under way
		d.saw(7, &history, at.Microseconds())
		if got := until(t.Context()); got != time.Second-time.Millisecond {
			t.Errorf("after %v, where an answer took a millisecond", got)
		}
		d.saw(7, &history, 0)
		if got := until(t.Context()); got != time.Second-time.Millisecond {
			t.Errorf("after %v, where an answer has no time", got)
		}
		for name, got := range map[string]string{
			"another history": d.of(t.Context(), 7, &other, time.Second), "another partition": d.of(t.Context(), 8, &history, time.Second),
		} {
			if got != "0" {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

// What the clock of Redis shows is learned from its answers, so an append succeeds whatever it is, and whenever it is set.
func TestAppendLearnsTheClockOfRedis(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	k := s.conn.key.topic(topicName)
	for _, off := range []time.Duration{0, -time.Hour, time.Hour} {
		if c := s.appender.deadlines.clocks[k.partition].Load(); c != nil {
			s.appender.deadlines.clocks[k.partition].Store(&serverClock{c.history, c.ahead + off})
		}
		if _, err := add(t.Context(), s, topicName, "x"); err != nil {
			t.Errorf("with a clock that was %v ahead: %v", off, err)
		}
		now, err := s.Time(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := s.appender.deadlines.clocks[k.partition].Load()
		if c == nil || (c.ahead+time.Since(s.appender.deadlines.start)-time.Duration(now.UnixNano())).Abs() > time.Minute {
			t.Errorf("with a clock that was %v ahead: %v, %v", off, c, now)
		}
	}
}
