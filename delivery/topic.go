package delivery

// topic is one that has lanes. The scheduler owns it, except for what is said.
type topic struct {
	url string
	members
	queues [pools]topicQueue

	// head is the newest entry, once known. headSets counts how often it was set to what the
	// store returned: so a read that began before that can be told from one that began after.
	head     anchor
	known    bool
	trimmed  anchor // the newest entry that retention took, as of the last time that heads read it
	headSets uint64
	// A walk over the lanes is under way, another is to follow, and one of the
	// two because of something new.
	walking, again, published bool

	headRead headRead      // the lock of heads guards it
	troubles topicTroubles // the lock of troubles guards it
	tail     journalTail   // it has a lock of its own
}

// behind reports whether a lane of the topic has something to deliver, as far as
// known.
func (t *topic) behind(l *lane) bool { return t.known && !l.cursor.anchor().same(t.head) }
