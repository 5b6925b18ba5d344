package resourcesync

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tolerations of the specifications' examples, in short.
const (
	oldUp    = `the relation "resourcesync" is what version 0.9 said for "up" (DOC-54)`
	oldIndex = `the relation "up" is what version 0.9 said for "index" (DOC-54)`
	oldName  = `the capability "resourcesync" is what older versions said for "description" (DOC-30)`
)

func oldAt(rule string) string {
	return fmt.Sprintf("from is what version 0.9 said for at, the time of the snapshot (%s)", rule)
}

func noUp(rule string) string {
	return fmt.Sprintf(`the document lacks an rs:ln rel="up" to its Capability List (%s)`, rule)
}

func hasTooMuch(what, kind, rule string, attributes ...string) (all []string) {
	for _, a := range attributes {
		all = append(all, fmt.Sprintf("%s has %s, which does not belong in a %s (%s)", what, a, kind, rule))
	}
	return all
}

// allAttributes are the tolerations of documents made to have every attribute.
func allAttributes(kind, rule string, entry ...string) []string {
	return slices.Concat(hasTooMuch("the rs:md of the document", kind, rule, "from", "until"), hasTooMuch("the entry", kind, rule, entry...), []string{noUp(rule)})
}

// exampleTolerations are the examples that are not read without a word. The
// first chapters of all versions leave out the link up, which later ones make
// mandatory; everything else is of version 0.9, or a test of the schema.
var exampleTolerations = map[string][]string{
	"0.9/archives_ex_2_1":      {oldUp, hasTooMuch("the rs:md of the document", "Resource List Archive", "DOC-44", "from")[0]},
	"0.9/archives_ex_3_1":      {oldUp, hasTooMuch("the rs:md of the document", "Resource Dump Archive", "DOC-44", "from")[0]},
	"0.9/archives_ex_4_1":      append([]string{oldUp}, hasTooMuch("the rs:md of the document", "Change List Archive", "DOC-45", "from", "until")...),
	"0.9/archives_ex_5_1":      append([]string{oldUp}, hasTooMuch("the rs:md of the document", "Change Dump Archive", "DOC-45", "from", "until")...),
	"0.9/archives_ex_6_1":      {oldUp},
	"0.9/resourcesync_ex_2_1":  {oldAt("DOC-34"), noUp("DOC-34")},
	"0.9/resourcesync_ex_2_2":  {oldAt("DOC-34"), noUp("DOC-34")},
	"0.9/resourcesync_ex_2_3":  {noUp("DOC-39")},
	"0.9/resourcesync_ex_2_4":  {oldAt("DOC-36"), noUp("DOC-36")},
	"0.9/resourcesync_ex_2_5":  {oldAt("DOC-38"), noUp("DOC-38")},
	"0.9/resourcesync_ex_2_6":  {`the document lacks an rs:ln rel="up" to its Source Description (DOC-32)`},
	"0.9/resourcesync_ex_2_7":  {oldName},
	"0.9/resourcesync_ex_2_8":  {oldAt("DOC-35"), noUp("DOC-35")},
	"0.9/resourcesync_ex_4_1":  {oldUp, oldAt("DOC-34")},
	"0.9/resourcesync_ex_4_2":  {oldUp, oldAt("DOC-35")},
	"0.9/resourcesync_ex_4_3":  {oldUp, oldIndex, oldAt("DOC-34")},
	"0.9/resourcesync_ex_5_1":  {oldUp, oldAt("DOC-36")},
	"0.9/resourcesync_ex_5_2":  {oldUp, oldAt("DOC-38")},
	"0.9/resourcesync_ex_6_1":  {oldUp},
	"0.9/resourcesync_ex_7_1":  {oldUp},
	"0.9/resourcesync_ex_7_2":  {oldUp},
	"0.9/resourcesync_ex_8_1":  {oldUp},
	"0.9/resourcesync_ex_8_2":  {oldUp},
	"0.9/resourcesync_ex_8_3":  {oldUp},
	"0.9/resourcesync_ex_8_4":  {oldUp},
	"0.9/resourcesync_ex_8_5":  {oldUp},
	"0.9/resourcesync_ex_8_6":  {oldUp},
	"0.9/resourcesync_ex_8_7":  {oldUp},
	"0.9/resourcesync_ex_8_8":  {oldUp},
	"0.9/resourcesync_ex_8_9":  {oldUp},
	"0.9/resourcesync_ex_8_10": {oldUp},
	"0.9/resourcesync_ex_9_1":  {oldName},
	"0.9/resourcesync_ex_9_2":  {oldUp},

	"0.9.1/resourcesync_ex_2_1": {noUp("DOC-34")},
	"0.9.1/resourcesync_ex_2_2": {noUp("DOC-34")},
	"0.9.1/resourcesync_ex_2_3": {noUp("DOC-39")},
	"0.9.1/resourcesync_ex_2_4": {noUp("DOC-36")},
	"0.9.1/resourcesync_ex_2_5": {noUp("DOC-38")},
	"0.9.1/resourcesync_ex_2_8": {noUp("DOC-35")},
	"0.9.1/test_ex_1":           allAttributes("Resource List", "DOC-34", "at", "completed", "from", "until", "capability", "path", "change"),
	"0.9.1/test_ex_2":           allAttributes("Resource List Index", "DOC-35", "from", "until", "capability", "path", "change"),
	"0.9.1/test_ex_3":           allAttributes("Resource List", "DOC-34", "at", "completed", "from", "until", "capability", "path", "change"),

	"1.1/resourcesync_ex_1": {noUp("DOC-34")},
	"1.1/resourcesync_ex_2": {noUp("DOC-34")},
	"1.1/resourcesync_ex_3": {noUp("DOC-39")},
	"1.1/resourcesync_ex_4": {noUp("DOC-36")},
	"1.1/resourcesync_ex_5": {noUp("DOC-38")},
	"1.1/resourcesync_ex_8": {noUp("DOC-35")},
}

// Every example of the three versions is read, and what is tolerated is what the
// table says; what is tolerated nowhere is read strictly, too.
func TestSpecExamplesAreRead(t *testing.T) {
	rest := maps.Clone(exampleTolerations)
	clean := 0
	for file, doc := range specExamples(t) {
		if strings.HasPrefix(doc, "<html") {
			continue
		}
		name := filepath.Base(filepath.Dir(filepath.Dir(file))) + "/" + strings.TrimSuffix(filepath.Base(file), ".xml")
		got := readDocument(strings.NewReader(doc), ReadOptions{})
		if got.err != nil || got.head.Kind() == "" || len(got.entries) == 0 {
			t.Errorf("%s: a %q with %d entries, %v", name, got.head.Kind(), len(got.entries), got.err)
			continue
		}
		var tolerated []string
		for _, x := range got.tolerated {
			_, text, _ := strings.Cut(x.String(), ": ")
			tolerated = append(tolerated, text)
		}
		if diff := cmp.Diff(exampleTolerations[name], tolerated); diff != "" {
			t.Errorf("%s: tolerated\n%s", name, diff)
		}
		delete(rest, name)
		strict := readDocument(strings.NewReader(doc), ReadOptions{Strict: true})
		if (strict.err == nil) != (len(tolerated) == 0) {
			t.Errorf("%s: strict: %v", name, strict.err)
		}
		if strict.err == nil {
			clean++
		}
	}
	if len(rest) > 0 || clean < 50 {
		t.Errorf("%d examples without a toleration; not among them: %v", clean, slices.Collect(maps.Keys(rest)))
	}
}
