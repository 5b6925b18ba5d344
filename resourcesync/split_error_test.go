package resourcesync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// DOC-33, DOC-38, DOC-60: what cannot be split is refused, and what has been
// begun is not left as if it were complete.
func TestSplitterRefuses_DOC60(t *testing.T) {
	manifest := resources(3)
	for i := range manifest {
		manifest[i].Path = fmt.Sprintf("/%d", i)
	}
	long := resources(1)
	long[0].Loc += strings.Repeat("x", 2000)
	for name, tc := range map[string]struct {
		capability string
		entries    []Entry
		options    WriteOptions
		text       string
	}{
		"one instant":        {ChangeList, changes(1, 1, 1), WriteOptions{MaxEntries: 2}, "different times"},
		"one instant, later": {ChangeList, changes(1, 2, 2, 2), WriteOptions{MaxEntries: 2}, "different times"},
		"no times":           {ChangeList, changes(1, -1, 2, -1), WriteOptions{MaxEntries: 3}, "different times"},
		"a manifest":         {ResourceDumpManifest, manifest, WriteOptions{MaxEntries: 2}, "cannot be split"},
		"a Capability List":  {CapabilityList, writtenDocuments["capabilitylist"].entries, WriteOptions{MaxEntries: 2}, "cannot be split"},
		"a long entry":       {ResourceDump, long, WriteOptions{MaxBytes: 2000}, "alone"},
	} {
		t.Run(name, func(t *testing.T) {
			var d folder
			err := split(t, &d, written{goodHead(tc.capability, false), tc.entries}, tc.options)
			wantRefusal(t, err, "DOC-60", tc.text)
			if f := d.files[0]; f != nil && (f.broken == nil || f.closed != 1) {
				t.Errorf("the index was closed %d times, as if nothing were wrong", f.closed)
			}
		})
	}
	h := goodHead(ChangeList, false)
	_, err := NewSplitter(with(h, h.From, h.Until), &folder{}, WriteOptions{})
	wantRefusal(t, err, "DOC-60", "index")
	h.Index = true
	_, err = NewSplitter(h, &folder{}, WriteOptions{})
	wantRefusal(t, err, "DOC-60", "index")
}

// DOC-60: a document that is too long before it has begun.
func TestSplitterHasNoRoom_DOC60(t *testing.T) {
	var d folder
	_, err := NewSplitter(goodHead(ResourceDump, false), &d, WriteOptions{MaxBytes: 100})
	wantRefusal(t, err, "DOC-60", "100 bytes")
	if f := d.files[0]; f.closed != 1 || f.broken == nil {
		t.Error("the index is left open")
	}
}

// Who has nothing more to write gives up, and leaves nothing that looks complete.
func TestSplitterIsAborted(t *testing.T) {
	reason := errors.New("no more entries")
	for _, n := range []int{0, 5} {
		var d folder
		s, err := NewSplitter(goodHead(ResourceDump, false), &d, WriteOptions{MaxEntries: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resources(n) {
			if err := s.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		s.Abort(reason)
		s.Abort(errors.New("another"))
		if err := s.Write(resources(1)[0]); !errors.Is(err, reason) {
			t.Errorf("Write: %v", err)
		}
		if err := s.Close(); !errors.Is(err, reason) {
			t.Errorf("Close: %v", err)
		}
		if f := d.files[0]; f.closed != 1 || !errors.Is(f.broken, reason) {
			t.Errorf("the index was closed %d times, with %v", f.closed, f.broken)
		}
		if n > 0 && (d.files[2].broken != nil || d.files[3].closed != 1 || !errors.Is(d.files[3].broken, reason)) {
			t.Errorf("part 2 was closed with %v, and part 3, %d times, with %v", d.files[2].broken, d.files[3].closed, d.files[3].broken)
		}
	}
	var d folder
	doc := writtenDocuments["resourcedump"]
	s, err := NewSplitter(doc.head, &d, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range doc.entries {
		if err := s.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Abort(reason) // too late
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wantFiles(t, &d, doc)
}

// An entry that breaks a rule is refused, and the others are not harmed.
func TestSplitterGoesOnAfterARefusal(t *testing.T) {
	h := goodHead(ChangeList, false)
	entries := changes(1, 2, 3)
	var d folder
	s, err := NewSplitter(h, &d, WriteOptions{MaxEntries: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		wantRefusal(t, s.Write(Entry{Loc: site + "bad", Datetime: hour(8)}), "DOC-39", "lacks change")
		if err := s.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if f := d.files[1]; !bytes.Equal(f.Bytes(), write(t, written{with(h, h.From, hour(3)), entries[:2]})) {
		t.Errorf("part 1 is\n%s", f.Bytes())
	}
}

// DOC-60: there is no index of indexes.
func TestSplitterFillsTheIndex_DOC60(t *testing.T) {
	s, err := NewSplitter(goodHead(ResourceDump, false), devNull{}, WriteOptions{MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := resources(1)[0]
	for range 50_001 {
		if err := s.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	wantRefusal(t, s.Close(), "DOC-60", "50000")
}

// devNull is a Sink that keeps nothing.
type devNull struct{}

func (devNull) Create(part int) (io.WriteCloser, string, error) { return devNull{}, partURL(part), nil }
func (devNull) Write(b []byte) (int, error)                     { return len(b), nil }
func (devNull) Close() error                                    { return nil }

// An error of the sink ends the Splitter, and is returned.
func TestSplitterPassesErrorsOn(t *testing.T) {
	bad := errors.New("disk full")
	for name, d := range map[string]*folder{
		"creating the index": {create: map[int]error{0: bad}},
		"creating a part":    {create: map[int]error{2: bad}},
		"writing the index":  {write: map[int]error{0: bad}},
		"writing a part":     {write: map[int]error{1: bad}},
		"writing a later":    {write: map[int]error{2: bad}},
		"closing a part":     {close: map[int]error{3: bad}},
		"closing the index":  {close: map[int]error{0: bad}},
	} {
		t.Run(name, func(t *testing.T) {
			doc := written{goodHead(ResourceDump, false), resources(5)}
			if err := split(t, d, doc, WriteOptions{MaxEntries: 2}); !errors.Is(err, bad) {
				t.Errorf("%v", err)
			}
			for part, f := range d.files {
				if f.closed != 1 || f.write != nil && f.broken == nil {
					t.Errorf("part %d: closed %d times, with %v", part, f.closed, f.broken)
				}
			}
			if f := d.files[0]; f != nil && f.broken == nil && f.close == nil {
				t.Error("the index was closed as if nothing were wrong")
			}
		})
	}
	for name, d := range map[string]*folder{
		"creating": {create: map[int]error{0: bad}},
		"writing":  {write: map[int]error{0: bad}},
		"closing":  {close: map[int]error{0: bad}},
	} {
		if err := split(t, d, written{goodHead(ResourceDump, false), resources(5)}, WriteOptions{}); !errors.Is(err, bad) {
			t.Errorf("%s one document: %v", name, err)
		}
	}
}

// A URL of the sink that no document can have is reported before anything else.
func TestSplitterChecksURLs(t *testing.T) {
	_, err := NewSplitter(goodHead(ResourceDump, false), badURL{}, WriteOptions{})
	wantRefusal(t, err, "DOC-52", "no url")
}

type badURL struct{ devNull }

func (badURL) Create(int) (io.WriteCloser, string, error) { return devNull{}, "no url", nil }
