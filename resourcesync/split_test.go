package resourcesync

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// split writes a document by a Splitter.
func split(t *testing.T, d *folder, doc written, o WriteOptions) error {
	t.Helper()
	s, err := NewSplitter(doc.head, d, o)
	if err != nil {
		return err
	}
	for _, e := range doc.entries {
		if err := s.Write(e); err != nil {
			var e *Error
			refused := errors.As(err, &e) && e.Kind == BadDocument // only this entry
			if err2 := s.Close(); errors.Is(err2, err) == refused {
				t.Errorf("Close returns %v after %v", err2, err)
			}
			return err
		}
	}
	err = s.Close()
	if err2 := s.Close(); !errors.Is(err2, err) {
		t.Errorf("Close returns %v after %v", err2, err)
	}
	if err2 := s.Write(doc.entries[0]); err2 == nil {
		t.Error("an entry after the end")
	}
	return err
}

// wantFiles checks that these documents were written, and each closed once. A
// document without a head is one that there is not.
func wantFiles(t *testing.T, d *folder, want ...written) {
	t.Helper()
	there := 0
	for part, doc := range want {
		if doc.head.Capability == "" {
			continue
		}
		there++
		f := d.files[part]
		switch text := write(t, doc); {
		case f == nil:
			t.Errorf("there is no part %d", part)
		case f.closed != 1 || f.broken != nil:
			t.Errorf("part %d was closed %d times, %v", part, f.closed, f.broken)
		case !bytes.Equal(f.Bytes(), text):
			t.Errorf("part %d is\n%s\nand not\n%s", part, f.Bytes(), text)
		}
	}
	if len(d.order) != there {
		t.Errorf("the parts %v were created", d.order)
	}
}

// with returns h as a part has it.
func with(h Head, from, until time.Time) Head {
	h.From, h.Until = from, until
	h.Links = append(slices.Clip(h.Links), Link{Rel: "index", Href: partURL(0)})
	return h
}

// resources returns n entries.
func resources(n int) []Entry {
	var all []Entry
	for i := range n {
		all = append(all, Entry{Loc: fmt.Sprintf("%s%d", site, i+1)})
	}
	return all
}

// changes returns an entry for each of the hours; one without a time for -1.
func changes(hours ...int) []Entry {
	all := resources(len(hours))
	for i, h := range hours {
		all[i].Change = Updated
		if h >= 0 {
			all[i].Datetime = hour(h)
		}
	}
	return all
}

// DOC-60: what fits is one document, as a Writer writes it, up to the limits.
func TestSplitterWritesOneDocument_DOC60(t *testing.T) {
	for name, doc := range writtenDocuments {
		if doc.head.Index || len(doc.entries) == 0 {
			continue
		}
		if _, part := doc.head.Link("index"); part {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var d folder
			if err := split(t, &d, doc, WriteOptions{MaxEntries: len(doc.entries)}); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, &d, doc)
		})
	}
	t.Run("empty", func(t *testing.T) { // DOC-50
		var d folder
		s, err := NewSplitter(goodHead(ChangeList, false), &d, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, &d, writtenDocuments["changelist-empty"])
	})
}

// DOC-35, DOC-37, DOC-46: documents about resources, and archives, are split
// anywhere, and their parts and their index have the times of the whole.
func TestSplitterSplitsResources_DOC35_DOC37_DOC46(t *testing.T) {
	times := Head{At: hour(3), Completed: hour(4), Links: upTo(site + "capabilitylist.xml")}
	for capability, member := range map[string]Entry{
		ResourceList:        {At: hour(3), Completed: hour(4)},
		ResourceDump:        {At: hour(3), Completed: hour(4)},
		ResourceListArchive: {},
		ChangeDumpArchive:   {},
		Description:         {},
	} {
		t.Run(capability, func(t *testing.T) {
			h := Head{Links: times.Links}
			if member.At.Equal(hour(3)) {
				h = times
			}
			h.Capability = capability
			entries := resources(5)
			var d folder
			if err := split(t, &d, written{h, entries}, WriteOptions{MaxEntries: 2}); err != nil {
				t.Fatal(err)
			}
			index, members := h, []Entry{member, member, member}
			index.Index = true
			for i := range members {
				members[i].Loc = partURL(i + 1)
			}
			part := with(h, time.Time{}, time.Time{})
			wantFiles(t, &d, written{index, members}, written{part, entries[:2]}, written{part, entries[2:4]}, written{part, entries[4:]})
			if want := []int{0, 1, 2, 3}; !slices.Equal(d.order, want) {
				t.Errorf("created in the order %v", d.order)
			}
		})
	}
}

// DOC-39, DOC-40: the intervals of parts follow upon each other, no instant is
// in two of them, and the last is open if the whole is.
func TestSplitterSplitsChanges_DOC39_DOC40(t *testing.T) {
	open := Head{Capability: ChangeList, From: hour(0), Links: upTo(site + "capabilitylist.xml")}
	closed := open
	closed.Until = hour(9)
	for name, tc := range map[string]struct {
		hours []int
		most  int
		cuts  []int // entry at which a part begins
	}{
		"between two":                      {[]int{1, 2, 3}, 2, []int{2}},
		"before those of one instant":      {[]int{1, 2, 2, 3}, 2, []int{1, 3}},
		"after those of one instant":       {[]int{2, 2, 3}, 2, []int{2}},
		"before many of one instant":       {[]int{1, 2, 2, 2, 2, 3}, 4, []int{1, 5}},
		"the first instant is from":        {[]int{0, 0, 1}, 2, []int{2}},
		"not beside what has no time":      {[]int{1, 2, -1, 3, 4}, 3, []int{1, 4}},
		"not after what has no time":       {[]int{-1, 1, 2, 3}, 3, []int{3}},
		"the last has what is left behind": {[]int{1, 2, 3, 3, 3}, 4, []int{2}},
	} {
		for _, h := range []Head{open, closed} {
			t.Run(fmt.Sprint(name, ", closed: ", !h.Until.IsZero()), func(t *testing.T) {
				entries := changes(tc.hours...)
				var d folder
				if err := split(t, &d, written{h, entries}, WriteOptions{MaxEntries: tc.most}); err != nil {
					t.Fatal(err)
				}
				index := h
				index.Index = true
				want := []written{{head: index}}
				from, first := h.From, 0
				for i, end := range append(tc.cuts, len(entries)) {
					until := h.Until
					if end < len(entries) {
						until = entries[end].Datetime
					}
					want = append(want, written{with(h, from, until), entries[first:end]})
					want[0].entries = append(want[0].entries, Entry{Loc: partURL(i + 1), From: from, Until: until})
					from, first = until, end
				}
				wantFiles(t, &d, want...)
			})
		}
	}
}

// DOC-42: packages are split where one begins, when those before have ended.
func TestSplitterSplitsPackages_DOC42(t *testing.T) {
	h := Head{Capability: ChangeDump, From: hour(0), Until: hour(9), Links: upTo(site + "capabilitylist.xml")}
	entries := resources(5)
	for i, p := range [][2]int{{0, 1}, {1, 4}, {3, 4}, {4, 5}, {5, 6}} {
		entries[i].From, entries[i].Until = hour(p[0]), hour(p[1])
	}
	var d folder
	if err := split(t, &d, written{h, entries}, WriteOptions{MaxEntries: 2}); err != nil {
		t.Fatal(err)
	}
	index := h
	index.Index = true
	wantFiles(t, &d,
		written{index, []Entry{
			{Loc: partURL(1), From: hour(0), Until: hour(1)},
			{Loc: partURL(2), From: hour(1), Until: hour(4)},
			{Loc: partURL(3), From: hour(4), Until: hour(9)},
		}},
		written{with(h, hour(0), hour(1)), entries[:1]},
		written{with(h, hour(1), hour(4)), entries[1:3]},
		written{with(h, hour(4), hour(9)), entries[3:]})

	entries[0].Links = []Link{{Rel: patchRel, Href: site + "patch", Type: "a/b"}} // as in any Change Dump
	d = folder{}
	if err := split(t, &d, written{h, entries}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, &d, written{h, entries})

	late := entries[4]
	late.Until = h.Until.Add(1)
	wantRefusal(t, split(t, &folder{}, written{h, []Entry{late}}, WriteOptions{}), "DOC-41", "later than until")
	late.From, late.Until = h.From.Add(-1), hour(1)
	wantRefusal(t, split(t, &folder{}, written{h, []Entry{late}}, WriteOptions{}), "DOC-41", "earlier than from")
	entries[0], entries[1] = entries[1], entries[0]
	wantRefusal(t, split(t, &folder{}, written{h, entries}, WriteOptions{}), "DOC-41", "order")
}

// DOC-11, DOC-13: notifications are split into several, without an index.
func TestSplitterSplitsNotifications_DOC11_DOC13(t *testing.T) {
	h := Head{Capability: ChangeNotification, From: hour(0), Until: hour(9)}
	entries := changes(1, 2, 2, 3)
	var d folder
	if err := split(t, &d, written{h, entries}, WriteOptions{MaxEntries: 2}); err != nil {
		t.Fatal(err)
	}
	part := func(from, until int) Head {
		h := h
		h.From, h.Until = hour(from), hour(until)
		return h
	}
	wantFiles(t, &d, written{}, written{part(0, 2), entries[:1]}, written{part(2, 3), entries[1:3]}, written{part(3, 9), entries[3:]})

	h = Head{Capability: FrameworkNotification} // which needs no interval
	for i := range entries {
		entries[i].Capability = ResourceList
	}
	d = folder{}
	if err := split(t, &d, written{h, entries}, WriteOptions{MaxEntries: 3}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, &d, written{}, written{h, entries[:3]}, written{h, entries[3:]})
}

// DOC-60: no part is longer than it may be, nor shorter than it must be.
func TestSplitterFillsParts_DOC60(t *testing.T) {
	h := goodHead(ResourceDump, false)
	entries := resources(200)
	for i := range entries {
		entries[i].Loc += strings.Repeat("x", i*i%97)
	}
	for _, zip := range []bool{false, true} {
		var d folder
		const most = 2000
		if err := split(t, &d, written{h, entries}, WriteOptions{MaxBytes: most, Gzip: zip}); err != nil {
			t.Fatal(err)
		}
		const slack = 20 // for an until with nine digits of a second, which none has
		var all []byte
		for part := 1; part < len(d.files); part++ {
			text := unzipped(t, d.files[part].Bytes(), zip)
			if len(text) > most {
				t.Errorf("part %d has %d bytes", part, len(text))
			}
			first := bytes.Index(text, []byte("  <url>"))
			if next := firstEntry(t, d.files[part+1], zip); next > 0 && len(text)+next <= most-slack {
				t.Errorf("part %d has %d bytes, and room for %d more", part, len(text), next)
			}
			all = append(all, bytes.TrimSuffix(text[first:], []byte("</urlset>\n"))...)
		}
		whole := write(t, written{h, entries})
		if !bytes.Contains(whole, all) || bytes.Count(all, []byte("<url>")) != len(entries) {
			t.Error("the parts together are not the whole")
		}
	}
}

func firstEntry(t *testing.T, f *file, zip bool) int {
	t.Helper()
	if f == nil {
		return 0
	}
	text := unzipped(t, f.Bytes(), zip)
	return bytes.Index(text, []byte("</url>\n")) + len("</url>\n") - bytes.Index(text, []byte("  <url>"))
}

// After the first part, entries about resources are passed on as they come. Those
// about changes can't be, as the head of a part says when it ends.
func TestSplitterPassesEntriesOn(t *testing.T) {
	const perPart = 1000
	for capability, want := range map[string]bool{ResourceDump: true, ChangeList: false} {
		var d folder
		s, err := NewSplitter(goodHead(capability, false), &d, WriteOptions{MaxEntries: perPart})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 * perPart {
			e := Entry{Loc: fmt.Sprintf("https://example.org/books/%d.zip", i)}
			if capability == ChangeList {
				e.Change, e.Datetime = Updated, hour(1).Add(time.Duration(i)*time.Second)
			}
			if err := s.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		if f := d.files[2]; (f != nil && f.Len() > 0) != want {
			t.Errorf("%s: the second part has been written to: %v", capability, !want)
		}
		if held := s.queued.size == 0; held != want {
			t.Errorf("%s: %d bytes are held", capability, s.queued.size)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
