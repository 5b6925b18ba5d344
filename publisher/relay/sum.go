package relay

import (
	"crypto/sha256"
	"hash"
	"io"
	"strconv"
	"time"

	"github.com/rshub/rshub/publisher/source"
)

// sum is the digest by which a repeated request is recognised. It is stored for 72 hours, so its form
// never changes, whatever becomes of the types: the SHA-256 digest of the fields of each change,
// each as its length in decimal digits, a colon and its bytes. The fields are the change, URL, lastmod, length, hash, type and
// encoding, the number of links, and of each link rel, href, pri, length, hash, type, encoding, profile and
// modified. A time is in UTC with nine digits of a second, as 2026-11-21T09:00:00.000000000Z. Hashes of the change are in a fixed
// order, and in lower case. What is not given is empty.
func sum(changes []source.Given) (sum [sha256.Size]byte) {
	h := sha256.New()
	for i := range changes {
		c, r := &changes[i], &changes[i].Resource
		put(h, string(c.Change), r.URL, timeText(r.ModTime), lengthText(r.Length, r.Length >= 0), r.Hash(), r.MediaType, r.Encoding, strconv.Itoa(len(r.Links)))
		for j := range r.Links {
			l := &r.Links[j]
			put(h, l.Rel, l.Href, strconv.Itoa(l.Pri), lengthText(l.Length, l.HasLength), l.Hash, l.Type, l.Encoding, l.Profile, timeText(l.Modified))
		}
	}
	h.Sum(sum[:0])
	return sum
}

func put(h hash.Hash, fields ...string) {
	for _, f := range fields {
		_, _ = io.WriteString(h, strconv.Itoa(len(f))+":"+f) // never fails
	}
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

func lengthText(n int64, has bool) string {
	if !has {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
