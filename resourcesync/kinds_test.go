package resourcesync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

type demand struct{ capability, root, entry string }

// demands is what each kind of document has in its root's rs:md and in those of
// its entries, as the specification says: "!" marks what must be there.
var demands = []demand{
	{"description", "", "capability"},
	{"capabilitylist", "", "capability!"},
	{"resourcelist", "at! completed", ""},
	{"resourcedump", "at! completed", "at completed"},
	{"resourcedump-manifest", "at! completed", "path!"},
	{"changelist", "from! until", "change! datetime"},
	{"changedump", "from! until", "from until"},
	{"changedump-manifest", "from! until", "change! datetime path!"},
	{"resourcelist-archive", "", "at completed"},
	{"resourcedump-archive", "", "at completed"},
	{"changelist-archive", "", "from until"},
	{"changedump-archive", "", "from until"},
	{"change-notification", "from! until!", "change! datetime"},
	{"framework-notification", "from until", "change! datetime capability!"},

	{"description index", "", ""},
	{"resourcelist index", "at! completed", "at completed"},
	{"resourcedump index", "at! completed", "at completed"},
	{"changelist index", "from! until", "from until"},
	{"changedump index", "from! until", "from until"},
	{"resourcelist-archive index", "", ""},
	{"resourcedump-archive index", "", ""},
	{"changelist-archive index", "", ""},
	{"changedump-archive index", "", ""},
}

// metadataOf writes an rs:md with those attributes.
func metadataOf(capability string, attributes []string) string {
	values := map[string]string{
		"at": "2026-01-01", "completed": "2026-01-02", "from": "2026-01-01", "until": "2026-01-02",
		"change": "updated", "datetime": "2026-01-01", "path": "/a", "capability": capability,
	}
	var b strings.Builder
	b.WriteString("<rs:md")
	for _, a := range attributes {
		fmt.Fprintf(&b, " %s=%q", a, values[a])
	}
	return b.String() + "/>"
}

// DOC-12, DOC-17, DOC-20, DOC-30 to DOC-46: each attribute, in each kind of
// document, in the root and in an entry, there and left out.
func TestDemands(t *testing.T) {
	tried := 0
	for _, kind := range demands {
		capability, _, isIndex := strings.Cut(kind.capability, " ")
		member := ChangeList
		if capability == Description {
			member = CapabilityList
		}
		lint := func(root, entry []string) bool {
			tried++
			md := metadataOf(capability, append([]string{"capability"}, root...))
			doc := urlset(upLink, md, urlOf(metadataOf(member, entry)))
			if isIndex {
				doc = indexOf(upLink, md, sitemapOf(metadataOf(member, entry)))
			}
			return readDocument(strings.NewReader(doc), ReadOptions{Strict: true}).err == nil
		}
		root, entry := mandatory(kind.root), mandatory(kind.entry)
		if !lint(root, entry) || !lint(known(kind.root), known(kind.entry)) {
			t.Errorf("%s: what it must have, or all that it may, is refused", kind.capability)
		}
		for _, a := range []string{"at", "completed", "from", "until", "change", "datetime", "path"} {
			if got, want := lint(toggled(root, a), entry), allowed(kind.root, a); got != want {
				t.Errorf("%s: toggling %s of the root is taken: %t", kind.capability, a, got)
			}
			if got, want := lint(root, toggled(entry, a)), allowed(kind.entry, a); got != want {
				t.Errorf("%s: toggling %s of an entry is taken: %t", kind.capability, a, got)
			}
		}
		if got, want := lint(root, toggled(entry, "capability")), allowed(kind.entry, "capability"); got != want {
			t.Errorf("%s: toggling the capability of an entry is taken: %t", kind.capability, got)
		}
	}
	if len(demands) != len(documents)+len(indexes)-1 || tried == 0 { // all but DOC-33
		t.Errorf("%d kinds of documents", len(demands))
	}
}

// mandatory and known read a cell of demands.
func mandatory(cell string) (all []string) {
	for _, a := range strings.Fields(cell) {
		if name, must := strings.CutSuffix(a, "!"); must {
			all = append(all, name)
		}
	}
	return all
}

func known(cell string) []string { return strings.Fields(strings.ReplaceAll(cell, "!", "")) }

// allowed says whether an attribute may be there and may not.
func allowed(cell, name string) bool { return slices.Contains(strings.Fields(cell), name) }

// toggled adds name, or removes it if it is there.
func toggled(attributes []string, name string) []string {
	if i := slices.Index(attributes, name); i >= 0 {
		return slices.Delete(slices.Clone(attributes), i, i+1)
	}
	return append(slices.Clone(attributes), name)
}

// DOC-18, DOC-39 to DOC-46: which entries come in order, by which time.
func TestOrders(t *testing.T) {
	for name, by := range map[string]string{
		"changelist": "datetime", "changedump-manifest": "datetime", "change-notification": "datetime", "framework-notification": "datetime",
		"changelist-archive": "from", "changedump-archive": "from", "changelist index": "from", "changedump index": "from",
		"changedump": "", "resourcelist": "", "resourcedump": "", "resourcelist-archive": "",
	} {
		capability, _, isIndex := strings.Cut(name, " ")
		kind := demands[slices.IndexFunc(demands, func(d demand) bool { return d.capability == name })]
		md := metadataOf(capability, append([]string{"capability"}, known(kind.root)...))
		entry := urlOf(metadataOf(ChangeList, known(kind.entry)))
		later := strings.NewReplacer(`datetime="2026-01-01"`, `datetime="2026-01-01T01:00:00Z"`, `from="2026-01-01"`, `from="2026-01-01T01:00:00Z"`).Replace(entry)
		doc := urlset(upLink, md, later, entry)
		if isIndex {
			doc = strings.NewReplacer("urlset", "sitemapindex", "url>", "sitemap>").Replace(doc)
		}
		got := readDocument(strings.NewReader(doc), ReadOptions{})
		inOrder := got.count == 0
		if inOrder != (by == "") || !inOrder && !strings.HasPrefix(got.tolerated[0].Msg, by+", ") || got.err != nil {
			t.Errorf("%s: by %q; tolerated %v, %v", name, by, got.tolerated, got.err)
		}
	}
}
