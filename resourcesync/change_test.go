package resourcesync

import (
	"strings"
	"testing"
)

// Every type of change is known, counted and shown, and keeps its index, which is stored (DOC-17).
func TestChangeTypes_DOC17(t *testing.T) {
	var counts Counts
	for i, c := range ChangeTypes() {
		if got, known := changeOf([]byte(c)); got != c || !known || !c.Known() || c.Index() != i {
			t.Errorf("%q: read as %q, known %t and %t, index %d of %d", c, got, known, c.Known(), c.Index(), i)
		}
		for range i + 1 {
			counts.Add(c)
		}
		if !strings.Contains(changeWords, string(c)) || !strings.Contains(ChangeSigns(), string(c)) {
			t.Errorf("%q is neither in %q nor in %q", c, changeWords, ChangeSigns())
		}
	}
	if counts != (Counts{Created: 1, Updated: 2, Deleted: 3}) || counts.Words() != "1 created, 2 updated, 3 deleted" || counts.Signs() != "+1 ~2 -3" {
		t.Errorf("%+v, %s, %s", counts, counts.Words(), counts.Signs())
	}
	if Created.Removes() || Updated.Removes() || !Deleted.Removes() {
		t.Error("only what is deleted is gone")
	}
	for _, c := range []ChangeType{"", "moved", "Created", "deleted "} {
		before := counts
		if counts.Add(c); counts != before || c.Known() || c.Removes() || c.Index() != -1 {
			t.Errorf("%q is known, or counted", c)
		}
		if got, known := changeOf([]byte(c)); got != c || known {
			t.Errorf("%q was read as %q, %t", c, got, known)
		}
	}
}

// Nothing can happen to a document that DOC-20 does not name, a type of change that is new
// included.
func TestPairFault_DOC20(t *testing.T) {
	for _, tc := range []struct {
		capability string
		change     ChangeType
		fault      bool
	}{
		{ResourceDump, Created, false},
		{ResourceDump, Updated, true},
		{ResourceList, Updated, false},
		{ResourceList, Deleted, true},
		{Description, Deleted, false},
		{ResourceDumpManifest, Created, true},
		{"", Created, true},
	} {
		if fault := pairFault(tc.capability, tc.change); (fault != "") != tc.fault {
			t.Errorf("%s %s: %q", tc.capability, tc.change, fault)
		}
	}
}
