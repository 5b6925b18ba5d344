package journal

import (
	"cmp"
	"slices"
	"time"
)

// Retention says how long notifications are retained. It does not depend on cursors: a
// callback that is down must not keep its topic from being trimmed.
type Retention struct {
	Age      time.Duration // of the oldest notification; 0: no limit
	PerTopic int64         // bytes of bodies in one topic; 0: no limit
	Total    int64         // bytes of bodies in all topics; 0: no limit
}

// Cut returns what Trim has to delete from each topic at now. Sizes are the bytes that each
// topic of the store retains. If they are over Total together, Cut limits all topics to the
// same size. Topics below that lose nothing.
func (r Retention) Cut(now time.Time, sizes []int64) Cut {
	cut := Cut{KeepBytes: -1}
	if r.Age > 0 {
		cut.Before = now.Add(-r.Age)
	}
	if r.PerTopic > 0 {
		cut.KeepBytes = r.PerTopic
	}
	if limit := r.limit(sizes); limit >= 0 && (cut.KeepBytes < 0 || limit < cut.KeepBytes) {
		cut.KeepBytes = limit
	}
	return cut
}

// limit returns the greatest size of a topic, in bytes, with which all topics together
// retain at most Total. -1: they do so without a limit.
func (r Retention) limit(sizes []int64) int64 {
	if r.Total <= 0 {
		return -1
	}
	sorted := slices.SortedFunc(slices.Values(sizes), cmp.Compare[int64])
	left := r.Total
	for i, size := range sorted {
		if r.PerTopic > 0 {
			size = min(size, r.PerTopic)
		}
		// The smallest topics fit as they are, as long as every one that is
		// left could be as large.
		if n := int64(len(sorted) - i); size*n > left {
			return left / n
		}
		left -= size
	}
	return -1
}
