package resourcesync

// kind is what the specification says about the documents of one capability, as a urlset
// or as an index. Attributes are those of rs:md.
type kind struct {
	name string
	// rule is its row in docs/conformance.md. entryRule and orderRule, if set, are those
	// of the entries and of their order.
	rule, entryRule, orderRule string
	// up says that the root must have a link to the document above it.
	up bool
	// head and entry are the attributes of the root and of each entry, in addition to the
	// root's capability and those of a representation.
	head, entry attributes
	// order is the attribute by whose time the entries must be ordered, and which lies in
	// the interval of the document; 0 if they need no order. In a Change Dump the order
	// is a "should" (DOC-41), so only within is set.
	order, within field
	// changes are how such a document can change, for framework notifications (DOC-20);
	// nil if these are not about such documents.
	changes []ChangeType
	// inputOnly says that such a document should no longer be written.
	inputOnly bool
}

// attributes are those that must be there and those that may.
type attributes struct{ must, may field }

func (a attributes) known() field { return a.must | a.may }

const (
	// representation describes a resource's bytes, and may stand in any entry.
	representation = fldHash | fldLength | fldType | fldEncoding | fldModified
	pathButDeleted = fldPath // in must: except for deletions
)

var (
	snapshot = attributes{must: fldAt, may: fldCompleted}
	interval = attributes{must: fldFrom, may: fldUntil}

	ofSnapshots = attributes{may: fldAt | fldCompleted}
	ofIntervals = attributes{may: fldFrom | fldUntil}
	ofChanges   = attributes{must: fldChange, may: fldDatetime}
)

// documents are the kinds of documents on urlset, by capability.
var documents = map[string]*kind{
	Description: {
		name: "Source Description", rule: "DOC-30", entry: attributes{may: fldCapability}, changes: anyChange,
	},
	CapabilityList: {
		name: "Capability List", rule: "DOC-32", up: true, entry: attributes{must: fldCapability}, changes: anyChange,
	},
	ResourceList: {
		name: "Resource List", rule: "DOC-34", up: true, head: snapshot, changes: anyChange[:2],
	},
	ResourceDump: {
		name: "Resource Dump", rule: "DOC-36", up: true, head: snapshot, entry: ofSnapshots, changes: anyChange[:1],
	},
	ResourceDumpManifest: {
		name: "Resource Dump Manifest", rule: "DOC-38", up: true, head: snapshot, entry: attributes{must: fldPath},
	},
	ChangeList: {
		name: "Change List", rule: "DOC-39", up: true, head: interval, entry: ofChanges, order: fldDatetime, changes: anyChange[:2],
	},
	ChangeDump: {
		name: "Change Dump", rule: "DOC-41", up: true, head: interval, entry: ofIntervals, within: fldFrom, changes: anyChange[:2],
	},
	ChangeDumpManifest: {
		name: "Change Dump Manifest", rule: "DOC-43", up: true, head: interval,
		entry: attributes{must: fldChange | pathButDeleted, may: fldDatetime}, order: fldDatetime,
	},
	ResourceListArchive: {
		name: "Resource List Archive", rule: "DOC-44", up: true, entry: ofSnapshots, changes: anyChange,
	},
	ResourceDumpArchive: {
		name: "Resource Dump Archive", rule: "DOC-44", up: true, entry: ofSnapshots, changes: anyChange,
	},
	ChangeListArchive: {
		name: "Change List Archive", rule: "DOC-45", up: true, entry: ofIntervals, order: fldFrom, changes: anyChange,
	},
	ChangeDumpArchive: {
		name: "Change Dump Archive", rule: "DOC-45", up: true, entry: ofIntervals, order: fldFrom, changes: anyChange,
	},
	ChangeNotification: {
		name: "Change Notification", rule: "DOC-12", entryRule: "DOC-17", orderRule: "DOC-18",
		head: attributes{must: fldFrom | fldUntil}, entry: ofChanges, order: fldDatetime,
	},
	FrameworkNotification: {
		name: "Framework Notification", rule: "DOC-20", orderRule: "DOC-18",
		head:  attributes{may: fldFrom | fldUntil},
		entry: attributes{must: fldChange | fldCapability, may: fldDatetime}, order: fldDatetime,
	},
}

// indexes are the kinds of documents on sitemapindex, by the capability that
// they share with their members. Manifests and notifications have none.
var indexes = map[string]*kind{
	Description: {
		name: "Source Description Index", rule: "DOC-31",
	},
	CapabilityList: {
		name: "Capability List Index", rule: "DOC-33", inputOnly: true,
	},
	ResourceList: {
		name: "Resource List Index", rule: "DOC-35", up: true, head: snapshot, entry: ofSnapshots,
	},
	ResourceDump: {
		name: "Resource Dump Index", rule: "DOC-37", up: true, head: snapshot, entry: ofSnapshots,
	},
	ChangeList: {
		name: "Change List Index", rule: "DOC-40", up: true, head: interval, entry: ofIntervals, order: fldFrom,
	},
	ChangeDump: {
		name: "Change Dump Index", rule: "DOC-42", up: true, head: interval, entry: ofIntervals, order: fldFrom,
	},
	ResourceListArchive: {name: "Resource List Archive Index", rule: "DOC-46", up: true},
	ResourceDumpArchive: {name: "Resource Dump Archive Index", rule: "DOC-46", up: true},
	ChangeListArchive:   {name: "Change List Archive Index", rule: "DOC-46", up: true},
	ChangeDumpArchive:   {name: "Change Dump Archive Index", rule: "DOC-46", up: true},
}

// kindOf returns the kind of a document; nil if there is no such kind.
func kindOf(capability string, index bool) *kind {
	if index {
		return indexes[capability]
	}
	return documents[capability]
}
