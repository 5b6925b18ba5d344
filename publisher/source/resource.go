package source

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// UnknownLength is the Length of a resource whose length nobody knows.
const UnknownLength = -1

// Resource is what an Index has of a resource. In a folder it is a regular file as it was when it
// was hashed, and all of Path, ModTime, Length, SHA256, MD5 and MediaType are known. A catalogue
// or an application may give less, and what a folder cannot know.
type Resource struct {
	// Path is its path below the folder, such as "a/b.txt". The names in it are the bytes
	// that the file system has, which need not be UTF-8. See EscapePath. With Content it only
	// says where the resource is listed. Empty: its bytes do not lie below a folder.
	Path string
	// URL is its address, if it has one of its own. Empty: its address is that of its set,
	// with data/ and Path.
	URL string
	// Content is a URL from which its bytes can be fetched, if they lie neither below the folder
	// nor at URL. Clients never see it.
	Content string
	// ModTime is the time of its last modification, in UTC. It is zero if it is not known, or
	// if no document can have it, which is before year 1 or after 9999.
	ModTime time.Time
	// Length is its size in bytes, or UnknownLength.
	Length int64
	// SHA256 and MD5 are digests of its bytes. Zero: not known.
	SHA256 [32]byte
	MD5    [16]byte
	// Digests are those of other algorithms.
	Digests resourcesync.Digests
	// MediaType is its media type without parameters, or empty. Guessed: it is what the function
	// MediaType returned, and a rule is stronger.
	MediaType string
	Guessed   bool
	// Encoding is the content coding in which its bytes are stored, such as "gzip" (LNK-10).
	// Length and digests are those of the coded bytes.
	Encoding string
	// Links lead to related resources (LNK-01 to LNK-08).
	Links []resourcesync.Link
}

// Key is what a resource is known by in an Index: its URL or, if that is empty, its Path. A path
// never looks like a URL, because it has no empty name.
func (r *Resource) Key() string {
	if r.URL != "" {
		return r.URL
	}
	return r.Path
}

// isURL reports whether a key is a URL.
func isURL(key string) bool { return strings.Contains(key, "://") }

// keyed returns a resource of which only the key is known.
func keyed(key string) Resource {
	if isURL(key) {
		return Resource{URL: key}
	}
	return Resource{Path: key}
}

// Hash is the attribute hash in documents, such as "md5:... sha-256:..." (DOC-55). It is empty if no
// digest is known.
func (r *Resource) Hash() string {
	if !r.hashed() {
		return ""
	}
	b := make([]byte, 0, 128)
	if r.MD5 != ([16]byte{}) {
		b = hex.AppendEncode(append(b, "md5:"...), r.MD5[:])
	}
	if r.SHA256 != ([32]byte{}) {
		b = hex.AppendEncode(append(spaced(b), "sha-256:"...), r.SHA256[:])
	}
	if r.Digests != (resourcesync.Digests{}) {
		b = append(spaced(b), r.Digests.String()...)
	}
	return string(b)
}

// spaced appends a space, unless b is empty.
func spaced(b []byte) []byte {
	if len(b) > 0 {
		b = append(b, ' ')
	}
	return b
}

// hashed reports whether a digest is known.
func (r *Resource) hashed() bool {
	return r.SHA256 != ([32]byte{}) || r.MD5 != ([16]byte{}) || r.Digests != (resourcesync.Digests{})
}

// SetHash sets the digests to those in an attribute hash.
func (r *Resource) SetHash(hash string) {
	d := resourcesync.ParseHashes(hash)
	r.SHA256, r.MD5, r.Digests = [32]byte{}, [16]byte{}, resourcesync.Digests{}
	copy(r.SHA256[:], d.Sum(resourcesync.SHA256))
	copy(r.MD5[:], d.Sum(resourcesync.MD5))
	var other []string
	for _, a := range []resourcesync.Algorithm{resourcesync.SHA1, resourcesync.SHA384, resourcesync.SHA512} {
		if sum := d.Sum(a); sum != nil {
			other = append(other, fmt.Sprintf("%v:%x", a, sum))
		}
	}
	if len(other) > 0 {
		r.Digests = resourcesync.ParseHashes(strings.Join(other, " "))
	}
}

// equal reports whether a client that fetches r and o gets the same, by what is known of both.
func (r *Resource) equal(o *Resource) bool {
	return r.sameBytes(o) && r.MediaType == o.MediaType && r.Guessed == o.Guessed && r.Encoding == o.Encoding && bytes.Equal(appendLinks(nil, r.Links), appendLinks(nil, o.Links))
}

// sameBytes reports whether both have the same bytes. If there is no algorithm of which both have a
// digest, the times of modification decide.
func (r *Resource) sameBytes(o *Resource) bool {
	if r.Length != o.Length && r.Length >= 0 && o.Length >= 0 {
		return false
	}
	known := false
	if r.SHA256 != ([32]byte{}) && o.SHA256 != ([32]byte{}) {
		if known = true; r.SHA256 != o.SHA256 {
			return false
		}
	}
	if r.MD5 != ([16]byte{}) && o.MD5 != ([16]byte{}) {
		if known = true; r.MD5 != o.MD5 {
			return false
		}
	}
	switch r.Digests.Compare(o.Digests) {
	case resourcesync.Different:
		return false
	case resourcesync.Equal:
		known = true
	}
	return known || r.ModTime.Equal(o.ModTime)
}
