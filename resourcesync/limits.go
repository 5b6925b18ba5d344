package resourcesync

import "cmp"

// Limits bounds what a reader accepts. A field that is zero or negative has the value of
// DefaultLimits.
type Limits struct {
	// Bytes is the longest document, in bytes.
	Bytes int64
	// Depth is how deep elements may be nested, the root counting as 1.
	Depth int
	// Attributes is how many attributes, namespace declarations among them, one
	// element may have, and how many namespace declarations may be in scope.
	Attributes int
	// Token is the longest tag, and the longest text of an element that is read as one
	// value, such as loc, in bytes. So no name and no attribute value is longer. At least
	// 64. A reader needs a buffer of four times this size.
	Token int
	// Entries is how many url or sitemap elements a document may have (DOC-60).
	Entries int
	// Links is how many links the root, and each entry, may have for a reader that
	// returns them. A reader that only checks ignores it.
	Links int
}

// DefaultLimits are the limits of the specification, 50,000 entries and 50 MiB (DOC-60),
// and generous ones for the rest.
var DefaultLimits = Limits{
	Bytes:      50 << 20,
	Depth:      64,
	Attributes: 32,
	Token:      16 << 10,
	Entries:    50_000,
	Links:      1_000,
}

const minToken = 64

func (l Limits) withDefaults() Limits {
	l.Bytes = cmp.Or(max(l.Bytes, 0), DefaultLimits.Bytes)
	l.Depth = cmp.Or(max(l.Depth, 0), DefaultLimits.Depth)
	l.Attributes = cmp.Or(max(l.Attributes, 0), DefaultLimits.Attributes)
	l.Token = max(cmp.Or(max(l.Token, 0), DefaultLimits.Token), minToken)
	l.Entries = cmp.Or(max(l.Entries, 0), DefaultLimits.Entries)
	l.Links = cmp.Or(max(l.Links, 0), DefaultLimits.Links)
	return l
}
