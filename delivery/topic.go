package delivery

// topic is one that has lanes. The scheduler owns it, except for what is said.
type topic struct {
	url string
	members
	queues [pools]topicQueue

	// head is the newest entry, once known. epoch counts how often it was set
	// from what the store said, so that a read which began before that is told
	// from one that began after.
	head  anchor
	known bool
	epoch uint64
	// A walk over the lanes is under way, another is to follow, and one of the
	// two because of something new.
	walking, again, published bool

	troubles topicTroubles // the lock of troubles guards it
	history  history       // it has a lock of its own
}

// behind tells whether a lane of the topic has something to deliver, as far as
// known.
func (t *topic) behind(l *lane) bool { return t.known && !l.cursor.same(t.head) }
