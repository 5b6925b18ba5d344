package resourcesync

import "math/bits"

// field is a set of the attributes that rs:md and rs:ln know, and of the
// elements that may stand once in an entry.
type field uint32

const (
	fldAt field = 1 << iota
	fldCapability
	fldChange
	fldCompleted
	fldDatetime
	fldEncoding
	fldFrom
	fldHash
	fldHref
	fldLength
	fldModified
	fldPath
	fldPri
	fldProfile
	fldRel
	fldType
	fldUntil
)

// What the schema of version 1.1 gives each element.
const (
	mdFields = fldAt | fldCapability | fldChange | fldCompleted | fldDatetime | fldEncoding |
		fldFrom | fldHash | fldLength | fldModified | fldPath | fldType | fldUntil
	lnFields = fldEncoding | fldHash | fldHref | fldLength | fldModified | fldPath | fldPri |
		fldProfile | fldRel | fldType
)

// What Head has fields for.
const (
	timeFields = fldAt | fldCompleted | fldFrom | fldUntil
	headFields = timeFields | fldCapability
)

// fieldNames are the names of the attributes, in the order of the bits.
var fieldNames = [...]string{
	"at", "capability", "change", "completed", "datetime", "encoding", "from", "hash", "href",
	"length", "modified", "path", "pri", "profile", "rel", "type", "until",
}

// index and name are those of the first attribute of a set that is not empty.
func (f field) index() int   { return bits.TrailingZeros32(uint32(f)) }
func (f field) name() string { return fieldNames[f.index()] }

func fieldOf(name []byte) field {
	switch string(name) {
	case "at":
		return fldAt
	case "capability":
		return fldCapability
	case "change":
		return fldChange
	case "completed":
		return fldCompleted
	case "datetime":
		return fldDatetime
	case "encoding":
		return fldEncoding
	case "from":
		return fldFrom
	case "hash":
		return fldHash
	case "href":
		return fldHref
	case "length":
		return fldLength
	case "modified":
		return fldModified
	case "path":
		return fldPath
	case "pri":
		return fldPri
	case "profile":
		return fldProfile
	case "rel":
		return fldRel
	case "type":
		return fldType
	case "until":
		return fldUntil
	}
	return 0
}
