package resourcesync

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// read reads a whole document. Its addresses are as the document writes them.
func read(doc []byte, o ReadOptions) (written, error) {
	r := NewReader(bytes.NewReader(doc), o)
	var all []Entry
	for e, err := range r.Entries() {
		if err != nil {
			return written{}, err
		}
		all = append(all, asWritten(e))
	}
	h, err := r.Head()
	return written{h, all}, err
}

// asWritten is an entry with its address as the document writes it, which EncodeURI
// makes the one that was read.
func asWritten(e Entry) Entry {
	if e.Written != "" {
		if EncodeURI(e.Written) != e.Loc || e.Written == e.Loc {
			panic(fmt.Sprintf("%q came as %q", e.Written, e.Loc))
		}
		e.Loc, e.Written = e.Written, ""
	}
	return e
}

// sameDocument compares the content of documents, not its places in the text, and a
// lastmod as far as it is written.
var sameDocument = cmp.Options{
	cmp.AllowUnexported(written{}),
	cmpopts.IgnoreFields(Head{}, "Line", "Column"),
	cmpopts.IgnoreFields(Entry{}, "Line", "Column"),
	cmpopts.EquateEmpty(),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".LastMod" }, cmp.Comparer(func(a, b time.Time) bool {
		return a.Truncate(time.Millisecond).Equal(b.Truncate(time.Millisecond))
	})),
}

// write(read(x)) = x, for documents of all kinds with whatever they can say: what
// is written is read strictly, unchanged, and written again to the byte; and so
// it is when its datetimes come in other forms of DOC-59.
func TestWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t)
		text := write(t, doc)
		for _, x := range [][]byte{text, otherForms(t, text)} {
			got, err := read(x, ReadOptions{Strict: true})
			if err != nil {
				t.Fatalf("%v in\n%s", err, x)
			}
			if diff := cmp.Diff(doc, got, sameDocument); diff != "" {
				t.Fatalf("read is not what was written (-, +):\n%s%s", diff, x)
			}
			if again := write(t, got); !bytes.Equal(again, text) {
				t.Fatalf("write(read(x)) is\n%s\nfor\n%s", again, x)
			}
		}
	})
}

var datetimes = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// otherForms writes the datetimes of a document in any of the forms that they
// may have.
func otherForms(t *rapid.T, doc []byte) []byte {
	return datetimes.ReplaceAllFunc(doc, func(b []byte) []byte {
		at, err := ParseDatetime(string(b))
		if err != nil {
			t.Fatal(err)
		}
		forms := []string{string(b)}
		for _, layout := range []string{"2006", "2006-01", "2006-01-02", "2006-01-02T15:04Z", "2006-01-02T15:04:05.000000000Z"} {
			if s := at.Format(layout); sameInstant(s, at) {
				forms = append(forms, s)
			}
		}
		for _, offset := range []int{-11*60 - 30, 60, 14 * 60} {
			s := at.In(time.FixedZone("", offset*60)).Format("2006-01-02T15:04:05.999999999-07:00")
			if sameInstant(s, at) {
				forms = append(forms, s)
			}
		}
		return []byte(rapid.SampledFrom(forms).Draw(t, "form"))
	})
}

func sameInstant(s string, at time.Time) bool {
	t, err := ParseDatetime(s)
	return err == nil && t.Equal(at)
}

// DOC-39, DOC-40, DOC-60: whatever the changes and the limits, the parts together
// are the whole, each within the limits, with intervals that follow upon each
// other and no instant in two of them; and the index says what they say.
func TestSplitIsRead_DOC40_DOC60(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := WriteOptions{
			MaxEntries: rapid.IntRange(1, 8).Draw(t, "most entries"), MaxBytes: int64(rapid.IntRange(800, 3000).Draw(t, "most bytes")),
			Gzip: rapid.Bool().Draw(t, "gzip"),
		}
		h := Head{Capability: ChangeList, From: hour(0), Links: upTo(site + "capabilitylist.xml")}
		if rapid.Bool().Draw(t, "closed") {
			h.Until = hour(99)
		}
		entries := resources(rapid.IntRange(0, 40).Draw(t, "entries"))
		at := 0
		for i := range entries {
			at += rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "later by")
			entries[i].Loc += strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "length"))
			entries[i].Change = Updated
			if rapid.IntRange(0, 9).Draw(t, "no datetime") > 0 {
				entries[i].Datetime = hour(at)
			}
		}
		var d folder
		s, err := NewSplitter(h, &d, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err = s.Write(e); err != nil {
				break
			}
		}
		if err = s.Close(); err != nil {
			t.Skip(err) // too many of one instant; TestSplitterRefuses is about that
		}
		whole, parts := readFolder(t, &d, o)
		if len(parts) == 0 {
			if diff := cmp.Diff(written{h, entries}, whole, sameDocument); diff != "" {
				t.Fatal(diff)
			}
			return
		}
		checkParts(t, h, entries, whole, parts)
	})
}

// readFolder reads what was written, strictly and within the limits.
func readFolder(t *rapid.T, d *folder, o WriteOptions) (zero written, parts []written) {
	for part := range len(d.files) {
		l := Limits{Entries: o.MaxEntries, Bytes: o.MaxBytes}
		if part == 0 && len(d.files) > 1 {
			l = Limits{}
		}
		b := d.files[part].Bytes()
		if o.Gzip {
			l = Limits{} // those of bytes are of the compressed ones too
		}
		doc, err := read(b, ReadOptions{Strict: true, Limits: l, Gzip: o.Gzip})
		if err != nil {
			t.Fatalf("part %d: %v", part, err)
		}
		if part == 0 {
			zero = doc
		} else {
			parts = append(parts, doc)
		}
	}
	return zero, parts
}

func checkParts(t *rapid.T, h Head, entries []Entry, index written, parts []written) {
	want := h
	want.Index = true
	if diff := cmp.Diff(want, index.head, sameDocument); diff != "" {
		t.Fatal(diff)
	}
	from := h.From
	var all []Entry
	for i, p := range parts {
		until := h.Until
		if i+1 < len(parts) {
			until = parts[i+1].head.From
			if !until.After(from) {
				t.Fatalf("part %d ends at %v and begins at %v", i+1, until, from)
			}
		}
		if diff := cmp.Diff(with(h, from, until), p.head, sameDocument); diff != "" {
			t.Fatalf("part %d: %s", i+1, diff)
		}
		if diff := cmp.Diff(Entry{Loc: partURL(i + 1), From: from, Until: until}, index.entries[i], sameDocument); diff != "" {
			t.Fatal(diff)
		}
		for _, e := range p.entries {
			if !e.Datetime.IsZero() && (e.Datetime.Before(from) || i+1 < len(parts) && !e.Datetime.Before(until)) {
				t.Fatalf("part %d from %v until %v has a change of %v", i+1, from, until, e.Datetime)
			}
		}
		if len(p.entries) == 0 {
			t.Fatalf("part %d is empty", i+1)
		}
		from = until
		all = append(all, p.entries...)
	}
	if len(index.entries) != len(parts) {
		t.Fatalf("the index has %d members for %d parts", len(index.entries), len(parts))
	}
	if diff := cmp.Diff(entries, all, sameDocument); diff != "" {
		t.Fatal(diff)
	}
}

// DOC-50, DOC-60: none, and one more than fit.
func TestSplitIsReadAtTheLimits_DOC50_DOC60(t *testing.T) {
	for n, documents := range map[int]int{0: 1, 50_000: 1, 50_001: 3} {
		var d folder
		s, err := NewSplitter(goodHead(ResourceDump, false), &d, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := s.Write(Entry{Loc: fmt.Sprint(site, i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		next := 0
		for part := range documents {
			if documents > 1 && part == 0 {
				continue
			}
			r := NewReader(&d.files[part].Buffer, ReadOptions{Strict: true})
			for e, err := range r.Entries() {
				if err != nil || e.Loc != fmt.Sprint(site, next) {
					t.Fatalf("part %d, entry %d: %+v, %v", part, next, e, err)
				}
				next++
			}
		}
		if next != n || len(d.files) != documents {
			t.Errorf("%d entries: %d read from %d documents", n, next, len(d.files))
		}
	}
}
