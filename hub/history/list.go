package history

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// End is why a stream ended.
type End string

// The ends of streams.
const (
	EndReader  End = "reader"  // its reader went away
	EndStalled End = "stalled" // its reader accepted nothing for Options.Stall
	EndDenied  End = "denied"  // its reader may read no more
	EndDrained End = "drained" // the hub shuts down
)

// Ends are all of them.
func Ends() []End { return []End{EndReader, EndStalled, EndDenied, EndDrained} }

// Open is an open stream.
type Open struct {
	ID      uint64 // of this run of the hub; it grows
	Topics  []string
	Address string // Reader.Address
	Reader  string // Reader.Publisher
	Since   time.Time
	// Notifications, Gaps and Bytes were written to it so far.
	Notifications, Gaps, Bytes uint64
	// Behind: it does not have all that there is.
	Behind bool
	// Blocked is how long it has waited for its reader to accept something; 0: it does not wait.
	Blocked time.Duration
}

// Stats are counts of all streams.
type Stats struct {
	Open, Most, Behind         int // Most: so many may be open; 0: no limit
	Notifications, Gaps, Bytes uint64
	Ended                      map[End]uint64
}

// sent counts what was written to one stream, or to all.
type sent struct{ notifications, gaps, bytes atomic.Uint64 }

// ends counts streams that ended.
type ends [4]atomic.Uint64

func (e *ends) add(why End) { e[slices.Index(Ends(), why)].Add(1) }

// ended returns why a stream ended with an error of its connection.
func ended(err error) End {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return EndStalled
	}
	return EndReader
}

// Stats returns the counts of all streams.
func (s *Service) Stats() Stats {
	st := Stats{
		Most: max(s.o.MaxStreams, 0), Ended: make(map[End]uint64),
		Notifications: s.sent.notifications.Load(), Gaps: s.sent.gaps.Load(), Bytes: s.sent.bytes.Load(),
	}
	for i, why := range Ends() {
		st.Ended[why] = s.ends[i].Load()
	}
	s.alarm.mu.Lock()
	defer s.alarm.mu.Unlock()
	st.Open = len(s.alarm.streams)
	for _, one := range s.alarm.streams {
		if one.lags.Load() {
			st.Behind++
		}
	}
	return st
}

// List returns up to most open streams with an id greater than after, ordered by id: those
// of one topic, unless that is empty. More says that there are others.
func (s *Service) List(topic string, after uint64, most int) (list []Open, more bool) {
	for _, st := range s.alarm.after(after) {
		if topic != "" && !slices.ContainsFunc(st.topics, func(f *follower) bool { return f.topic == topic }) {
			continue
		}
		if len(list) == most {
			return list, true
		}
		list = append(list, st.describe())
	}
	return list, false
}

// after returns the streams with a greater id, ordered by id.
func (a *alarm) after(id uint64) []*stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*stream
	for n, st := range a.streams {
		if n > id {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	return all
}

// describe returns the Open of a stream.
func (st *stream) describe() Open {
	o := Open{
		ID: st.id, Address: st.from.Address, Reader: st.from.Publisher, Since: st.began, Behind: st.lags.Load(),
		Notifications: st.sent.notifications.Load(), Gaps: st.sent.gaps.Load(), Bytes: st.sent.bytes.Load(),
	}
	for _, f := range st.topics {
		o.Topics = append(o.Topics, f.topic)
	}
	if at := st.blocked.Load(); at != 0 {
		o.Blocked = time.Since(time.Unix(0, at))
	}
	return o
}
