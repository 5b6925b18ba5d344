package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// The buckets.
var (
	bucketMeta      = []byte("meta")      // keyHead -> head
	bucketResources = []byte("resources") // Resource.Key -> record
	bucketLog       = []byte("log")       // seq, big-endian -> change
)

var keyHead = []byte("head")

// format is the version of the index. In 1, values had no checksums. In formatPlain, all values
// are plain. Such an index gets the new format when it gets the first value that is not, so that until then an older
// version of the program can open it.
const (
	format      = 3
	formatPlain = 2
)

// The first byte of every value says how it is packed. If a layout changes, it gets a new number, and
// the old ones stay readable.
const (
	packPlain    = 1 // a resource is as Resource.plain says
	packExtended = 2 // see appendExtended
)

// errPacked is the error of unpacker.done.
var errPacked = errors.New("a value of the index makes no sense")

// head is the state of the index.
type head struct {
	ready    bool  // the first scan is finished
	count    int   // of resources
	baseline int64 // when the first scan was finished, in microseconds since 1970
	last     place // the last change; before the first one, the baseline
	begin    place // the log has the changes after it
	floor    int64 // microseconds since 1970: later changes are after it
}

// place is a place in the log.
type place struct {
	seq uint64
	at  int64 // microseconds since 1970
}

// instant is a time of a file system.
type instant struct {
	sec  int64
	nsec int32
}

func instantOf(t time.Time) instant {
	return instant{t.Unix(), int32(t.Nanosecond())} //nolint:gosec // below 1e9
}

func (i instant) time() time.Time { return time.Unix(i.sec, int64(i.nsec)).UTC() }

// stat shows whether a file has changed. If two are equal, the bytes are the same, unless the
// older was read in the moment of a change.
type stat struct {
	size    int64
	mtime   instant
	changed instant // of the inode (ctime), which nobody can set; mtime if the system has none
	inode   uint64  // 0 if the system has none
}

// record is what is stored of a resource.
type record struct {
	Resource
	stat stat
	// racy: it was changed so shortly before it was hashed that a later change may not show
	// in its stat.
	racy bool
	// taken is the path of the resource that has the URL of this one. If it is not empty, this
	// one was left out. It is not stored.
	taken string
}

func packHead(h head) []byte {
	b := []byte{packPlain, flag(h.ready)}
	b = binary.AppendUvarint(b, uint64(h.count)) //nolint:gosec // never negative
	for _, m := range []place{h.last, h.begin} {
		b = binary.AppendUvarint(b, m.seq)
		b = binary.AppendVarint(b, m.at)
	}
	return binary.AppendVarint(binary.AppendVarint(b, h.baseline), h.floor)
}

func unpackHead(v []byte) (head, error) {
	u := unpack(v)
	u.bad = u.bad || u.version != packPlain
	h := head{ready: u.byte() == 1, count: int(u.uvarint())} //nolint:gosec // an int when it was written
	for _, m := range []*place{&h.last, &h.begin} {
		*m = place{u.uvarint(), u.varint()}
	}
	h.baseline, h.floor = u.varint(), u.varint()
	return h, u.done("head")
}

func putHead(tx *boltfile.Tx, h head) error { return tx.Bucket(bucketMeta).Put(keyHead, packHead(h)) }

// appendResource writes all of r except its key, as packOf(r) says.
func appendResource(b []byte, r *Resource, mtime instant) []byte {
	if !r.plain() {
		return appendExtended(b, r, mtime)
	}
	b = binary.AppendUvarint(b, uint64(r.Length)) //nolint:gosec // never negative
	b = appendInstant(b, mtime)
	b = append(b, r.SHA256[:]...)
	b = append(b, r.MD5[:]...)
	return append(b, r.MediaType...)
}

func appendInstant(b []byte, i instant) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, i.sec), uint64(i.nsec)) //nolint:gosec // never negative
}

func packRecord(r *record) []byte {
	b := append(make([]byte, 0, 112), packOf(&r.Resource), flag(r.racy))
	b = appendInstant(b, r.stat.changed)
	b = binary.AppendUvarint(b, r.stat.inode)
	return appendResource(b, &r.Resource, r.stat.mtime)
}

func unpackRecord(key string, v []byte) (r record, err error) {
	u := unpack(v)
	r.racy = u.byte() == 1
	r.stat.changed = u.instant()
	r.stat.inode = u.uvarint()
	r.Resource, r.stat.mtime = u.resource(key)
	r.stat.size = r.Length
	return r, u.done(key)
}

// getRecord returns the record with a key; nil: there is none.
func getRecord(tx *boltfile.Tx, key string) (*record, error) {
	v := tx.Bucket(bucketResources).Get([]byte(key))
	if v == nil {
		return nil, nil
	}
	r, err := unpackRecord(key, v)
	return &r, err
}

// changes are the change types, by the byte that stands for each.
var changes = resourcesync.ChangeTypes()

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// packChange writes all of a change except its seq. Mtime is that of the resource.
func packChange(c *Change, mtime instant) []byte {
	key, pack := c.Resource.Key(), byte(packPlain)
	if !c.Change.Removes() {
		pack = packOf(&c.Resource)
	}
	b := make([]byte, 0, 96+len(key))
	b = append(b, pack, byte(c.Change.Index())) //nolint:gosec // an unknown type is 255, which unpackChange refuses
	b = binary.AppendVarint(b, c.At.UnixMicro())
	b = appendString(b, key)
	if c.Change.Removes() {
		return b
	}
	return appendResource(b, &c.Resource, mtime)
}

func unpackChange(k, v []byte) (c Change, err error) {
	if len(k) != 8 {
		return c, errPacked
	}
	c.Seq = binary.BigEndian.Uint64(k)
	u := unpack(v)
	kind := u.byte()
	if int(kind) >= len(changes) {
		return c, errPacked
	}
	c.Change = changes[kind]
	c.At = time.UnixMicro(u.varint()).UTC()
	key := u.string()
	if c.Resource = keyed(key); !c.Change.Removes() {
		c.Resource, _ = u.resource(key)
	}
	return c, u.done(key)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// unpacker reads the fields of a value. If one is missing, it returns zeros from then on, and
// done returns an error.
type unpacker struct {
	b       []byte
	bad     bool
	version byte
}

func unpack(v []byte) *unpacker {
	u := &unpacker{b: v}
	u.version = u.byte()
	u.bad = u.bad || u.version != packPlain && u.version != packExtended
	return u
}

func (u *unpacker) next(n uint64) []byte {
	if u.bad || n > uint64(len(u.b)) {
		u.bad, u.b = true, nil
		return nil
	}
	field := u.b[:n]
	u.b = u.b[n:]
	return field
}

func (u *unpacker) byte() byte {
	if b := u.next(1); b != nil {
		return b[0]
	}
	return 0
}

func (u *unpacker) uvarint() uint64 {
	n, size := binary.Uvarint(u.b)
	u.next(uint64(max(size, 0)))
	u.bad = u.bad || size <= 0
	return n
}

func (u *unpacker) varint() int64 {
	n, size := binary.Varint(u.b)
	u.next(uint64(max(size, 0)))
	u.bad = u.bad || size <= 0
	return n
}

func (u *unpacker) instant() instant {
	i := instant{sec: u.varint()}
	nsec := u.uvarint()
	u.bad = u.bad || nsec >= 1e9
	i.nsec = int32(nsec % 1e9)
	return i
}

// resource reads the rest of the value.
func (u *unpacker) resource(key string) (r Resource, mtime instant) {
	r = keyed(key)
	if u.version == packExtended {
		mtime = u.extended(&r)
		return r, mtime
	}
	r.Length = int64(u.uvarint()) //nolint:gosec // an int64 when it was written
	mtime = u.instant()
	r.ModTime = modTime(mtime)
	copy(r.SHA256[:], u.next(uint64(len(r.SHA256))))
	copy(r.MD5[:], u.next(uint64(len(r.MD5))))
	r.MediaType = string(u.next(uint64(len(u.b))))
	r.Guessed = r.MediaType != ""
	return r, mtime
}

// modTime is the ModTime of a resource with this time.
func modTime(i instant) time.Time {
	if t := i.time(); t.Year() >= 1 && t.Year() <= 9999 {
		return t
	}
	return time.Time{}
}

func (u *unpacker) done(what string) error {
	if u.bad || len(u.b) > 0 {
		return fmt.Errorf("%w: %q", errPacked, what)
	}
	return nil
}
