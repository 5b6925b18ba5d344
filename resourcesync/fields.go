package resourcesync

import "math/bits"

// field is a set of the attributes that rs:md and rs:ln know. Attributes whose
// values are times come first, then those whose values are texts.
type field uint32

const (
	fldAt field = 1 << iota
	fldCompleted
	fldDatetime
	fldFrom
	fldModified
	fldUntil

	fldCapability
	fldEncoding
	fldHash
	fldHref
	fldPath
	fldProfile
	fldRel
	fldType

	fldChange
	fldLength
	fldPri
)

const (
	timeFields = fldAt | fldCompleted | fldDatetime | fldFrom | fldModified | fldUntil

	// What the schema of version 1.1 gives each element.
	mdFields = timeFields | fldCapability | fldChange | fldEncoding | fldHash | fldLength | fldPath | fldType
	lnFields = fldEncoding | fldHash | fldHref | fldLength | fldModified | fldPath | fldPri |
		fldProfile | fldRel | fldType

	// What Head has fields for.
	headTimes  = fldAt | fldCompleted | fldFrom | fldUntil
	headFields = headTimes | fldCapability
)

// fieldNames are the names of the attributes, in the order of the bits.
var fieldNames = [...]string{
	"at", "completed", "datetime", "from", "modified", "until",
	"capability", "encoding", "hash", "href", "path", "profile", "rel", "type",
	"change", "length", "pri",
}

// timeCount and textCount are how many attributes have times and texts as values.
const (
	timeCount = 6
	textCount = 8
)

// index and name are those of the first attribute of a set that is not empty.
func (f field) index() int   { return bits.TrailingZeros32(uint32(f)) }
func (f field) name() string { return fieldNames[f.index()] }

// fieldOf returns the attribute of a name, and 0 if there is none.
func fieldOf(name []byte) field {
	switch string(name) { // faster than a loop over fieldNames or a map
	case "at":
		return fldAt
	case "completed":
		return fldCompleted
	case "datetime":
		return fldDatetime
	case "from":
		return fldFrom
	case "modified":
		return fldModified
	case "until":
		return fldUntil
	case "capability":
		return fldCapability
	case "encoding":
		return fldEncoding
	case "hash":
		return fldHash
	case "href":
		return fldHref
	case "path":
		return fldPath
	case "profile":
		return fldProfile
	case "rel":
		return fldRel
	case "type":
		return fldType
	case "change":
		return fldChange
	case "length":
		return fldLength
	case "pri":
		return fldPri
	}
	return 0
}
