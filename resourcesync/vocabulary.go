package resourcesync

import "bytes"

// The capabilities of notifications (DOC-12, DOC-20). ChangelistNotification is
// what versions 0.9 and 1.0 of the specification said for ChangeNotification.
const (
	ChangeNotification     = "change-notification"
	FrameworkNotification  = "framework-notification"
	ChangelistNotification = "changelist-notification"
)

// The capabilities of the documents that a framework notification may be about,
// and of their archives.
const (
	Description         = "description"
	CapabilityList      = "capabilitylist"
	ResourceList        = "resourcelist"
	ResourceDump        = "resourcedump"
	ChangeList          = "changelist"
	ChangeDump          = "changedump"
	ResourceListArchive = "resourcelist-archive"
	ResourceDumpArchive = "resourcedump-archive"
	ChangeListArchive   = "changelist-archive"
	ChangeDumpArchive   = "changedump-archive"
)

// The capabilities of manifests, which say what is in a package of a dump
// (DOC-38, DOC-43).
const (
	ResourceDumpManifest = "resourcedump-manifest"
	ChangeDumpManifest   = "changedump-manifest"
)

// intern returns b as a string, without a copy where it is a word of the
// vocabulary.
func intern(b []byte) string {
	switch string(b) {
	case ChangeNotification:
		return ChangeNotification
	case FrameworkNotification:
		return FrameworkNotification
	case ChangelistNotification:
		return ChangelistNotification
	case Description:
		return Description
	case CapabilityList:
		return CapabilityList
	case ResourceList:
		return ResourceList
	case ResourceDump:
		return ResourceDump
	case ChangeList:
		return ChangeList
	case ChangeDump:
		return ChangeDump
	case ResourceDumpManifest:
		return ResourceDumpManifest
	case ChangeDumpManifest:
		return ChangeDumpManifest
	case ResourceListArchive:
		return ResourceListArchive
	case ResourceDumpArchive:
		return ResourceDumpArchive
	case ChangeListArchive:
		return ChangeListArchive
	case ChangeDumpArchive:
		return ChangeDumpArchive
	case legacyDescription:
		return legacyDescription
	}
	return string(b)
}

// relation is a relation that the reader itself looks for.
type relation int

const (
	relOther relation = iota
	relUp
)

// relationOf compares as RFC 8288 does, without regard to case.
func relationOf(rel []byte) relation {
	if len(rel) == len("up") && bytes.EqualFold(rel, []byte("up")) {
		return relUp
	}
	return relOther
}
