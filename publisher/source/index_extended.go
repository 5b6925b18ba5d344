package source

import (
	"encoding/binary"
	"math"

	"github.com/rshub/rshub/resourcesync"
)

// plain reports whether a resource has only what a file has.
func (r *Resource) plain() bool {
	return r.URL == "" && r.Content == "" && r.Encoding == "" && len(r.Links) == 0 && r.Length >= 0 && r.Guessed == (r.MediaType != "") && r.Digests == (resourcesync.Digests{})
}

// packOf is the first byte of a value with a resource.
func packOf(r *Resource) byte {
	if r.plain() {
		return packPlain
	}
	return packExtended
}

// The first byte of an extended resource: the digests that follow, and whether the media type is a guess.
const (
	hasSHA256 = 1 << iota
	hasMD5
	hasGuess
)

// appendExtended writes all of r except its key.
func appendExtended(b []byte, r *Resource, mtime instant) []byte {
	at := len(b)
	b = append(b, 0)
	b = binary.AppendVarint(b, r.Length)
	b = appendInstant(b, mtime)
	if r.SHA256 != ([32]byte{}) {
		b[at] |= hasSHA256
		b = append(b, r.SHA256[:]...)
	}
	if r.MD5 != ([16]byte{}) {
		b[at] |= hasMD5
		b = append(b, r.MD5[:]...)
	}
	if r.Guessed {
		b[at] |= hasGuess
	}
	path := "" // that of a resource without a URL is its key
	if r.URL != "" {
		path = r.Path
	}
	for _, s := range []string{r.Digests.String(), r.MediaType, r.Encoding, path, r.Content} {
		b = appendString(b, s)
	}
	return appendLinks(b, r.Links)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendLinks(b []byte, links []resourcesync.Link) []byte {
	b = binary.AppendUvarint(b, uint64(len(links)))
	for i := range links {
		l := &links[i]
		for _, s := range []string{l.Rel, l.Href, l.Hash, l.Path, l.Type, l.Encoding, l.Profile} {
			b = appendString(b, s)
		}
		b = binary.AppendUvarint(b, uint64(max(l.Pri, 0)))
		length := int64(UnknownLength)
		if l.HasLength {
			length = l.Length
		}
		b = binary.AppendVarint(b, length)
		b = appendInstant(b, instantOf(l.Modified))
		b = binary.AppendUvarint(b, uint64(len(l.Attributes)))
		for _, a := range l.Attributes {
			b = appendString(appendString(appendString(b, a.Space), a.Name), a.Value)
		}
	}
	return b
}

// extended reads what appendExtended wrote.
func (u *unpacker) extended(r *Resource) (mtime instant) {
	has := u.byte()
	r.Length = max(u.varint(), UnknownLength)
	mtime = u.instant()
	r.ModTime = modTime(mtime)
	if has&hasSHA256 != 0 {
		copy(r.SHA256[:], u.next(uint64(len(r.SHA256))))
	}
	if has&hasMD5 != 0 {
		copy(r.MD5[:], u.next(uint64(len(r.MD5))))
	}
	if digests := u.string(); digests != "" {
		r.Digests = resourcesync.ParseHashes(digests)
	}
	r.MediaType, r.Encoding, r.Guessed = u.string(), u.string(), has&hasGuess != 0
	if path := u.string(); r.URL != "" {
		r.Path = path
	}
	r.Content = u.string()
	r.Links = u.links()
	return mtime
}

func (u *unpacker) string() string { return string(u.next(u.uvarint())) }

// links reads links. Each has at least a dozen bytes, so their number is bounded by the value.
func (u *unpacker) links() (links []resourcesync.Link) {
	for n := u.uvarint(); n > 0 && !u.bad; n-- {
		l := resourcesync.Link{
			Rel: u.string(), Href: u.string(), Hash: u.string(), Path: u.string(), Type: u.string(), Encoding: u.string(), Profile: u.string(),
		}
		pri := u.uvarint()
		u.bad = u.bad || pri > math.MaxInt32
		l.Pri = int(pri & math.MaxInt32)
		if length := u.varint(); length >= 0 {
			l.Length, l.HasLength = length, true
		}
		l.Modified = modTime(u.instant())
		for n := u.uvarint(); n > 0 && !u.bad; n-- {
			l.Attributes = append(l.Attributes, resourcesync.Attribute{Space: u.string(), Name: u.string(), Value: u.string()})
		}
		links = append(links, l)
	}
	return links
}
