package journal

import (
	"cmp"
	"slices"
	"time"
)

// Retention says how long notifications are kept for those who lag. It never
// looks at cursors: one dead lease must not hold the journal.
type Retention struct {
	Age      time.Duration // of the oldest notification; 0: any
	PerTopic int64         // bytes of bodies in one topic; 0: any
	Total    int64         // bytes of bodies in all topics; 0: any
}

// Cut returns what Trim is to take from a topic at now, given the bytes that
// each topic of the store retains. Where they are over Total, topics above
// their fair share give up their oldest entries, and those below it nothing.
func (r Retention) Cut(now time.Time, sizes []int64) Cut {
	cut := Cut{KeepBytes: -1}
	if r.Age > 0 {
		cut.Before = now.Add(-r.Age)
	}
	if r.PerTopic > 0 {
		cut.KeepBytes = r.PerTopic
	}
	if share := r.share(sizes); share >= 0 && (cut.KeepBytes < 0 || share < cut.KeepBytes) {
		cut.KeepBytes = share
	}
	return cut
}

// share is the greatest limit of bytes a topic under which the topics together
// hold no more than Total; -1 where they hold no more as it is.
func (r Retention) share(sizes []int64) int64 {
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
