package resourcesync

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

// vocabulary has each known capability, so that readers share its text.
var vocabulary = func() map[string]string {
	all := map[string]string{ChangelistNotification: ChangelistNotification, legacyDescription: legacyDescription}
	for name := range documents {
		all[name] = name
	}
	return all
}()

// intern returns b as a string, without a copy if it is a known capability.
func intern(b []byte) string {
	if name, ok := vocabulary[string(b)]; ok {
		return name
	}
	return string(b)
}
