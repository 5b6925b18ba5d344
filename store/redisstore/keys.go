package redisstore

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// DefaultPrefix begins every key if Options.Prefix is empty.
const DefaultPrefix = "rshub"

// prefixes matches the allowed prefixes. Braces would choose the slot of a key in a Cluster, and
// other characters have a meaning in ACL rules.
var prefixes = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,64}$`)

// keys builds the names of all keys. It is the prefix.
type keys string

func newKeys(prefix string) (keys, error) {
	prefix = cmp.Or(prefix, DefaultPrefix)
	if !prefixes.MatchString(prefix) {
		return "", errors.New("the prefix of the Redis keys must be 1 to 64 letters, digits and characters of _.:/-")
	}
	return keys(prefix), nil
}

// partition returns a key of a partition of topics.
func (k keys) partition(n int, name string) string { return k.slot("p:"+strconv.Itoa(n), name) }

// nodes returns a key of what the hubs report about themselves, and meta a key of what the
// store records about itself.
func (k keys) nodes(name string) string { return k.slot("nodes", name) }
func (k keys) meta(name string) string  { return k.slot("meta", name) }

func (k keys) slot(tag, name string) string { return string(k) + ":{" + tag + "}:" + name }

// The names of the keys of a partition.
const (
	nameHeads     = "heads"
	nameIDs       = "ids"
	nameChanges   = "changes"
	nameLatest    = "latest"
	namePings     = "marks"
	nameHints     = "hints"
	nameHistory   = "history"
	nameConfirmed = "confirmed"

	beginsEntries   = "entries:"
	beginsIntervals = "intervals:"
	beginsBody      = "body:"
)

// topicKeys are the keys that an operation on one topic works with.
type topicKeys struct {
	partition int
	id        uuid.UUID
	field     string // of the topic in the hashes of its partition

	heads, entries, intervals, ids, changes, latest, hints, history string
}

func (k keys) topic(topic string) topicKeys { return k.topicID(journal.TopicID(topic)) }

func (k keys) topicID(id uuid.UUID) topicKeys {
	n := journal.Partition(id)
	return topicKeys{
		partition: n, id: id, field: string(id[:]),
		heads:     k.partition(n, nameHeads),
		entries:   k.partition(n, beginsEntries+id.String()),
		intervals: k.partition(n, beginsIntervals+id.String()),
		ids:       k.partition(n, nameIDs),
		changes:   k.partition(n, nameChanges),
		latest:    k.partition(n, nameLatest),
		hints:     k.partition(n, nameHints),
		history:   k.partition(n, nameHistory),
	}
}

// body returns the key of a large body. It is in the partition of its entry, which the id of
// the notification includes.
func (k keys) body(id uuid.UUID) string {
	return k.partition(journal.IDPartition(id), beginsBody+id.String())
}
