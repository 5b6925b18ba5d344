package storetest

import (
	"fmt"

	"github.com/rshub/rshub/journal"
)

// note adds notes with these numbers, first to last, and a check reads them back.
func (k *kit) note(first, last int) {
	k.Helper()
	var texts [][]byte
	for n := first; n <= last; n++ {
		texts = append(texts, fmt.Appendf(nil, "note %d\x00\xff", n))
	}
	k.ok(k.h.Note(k.Context(), texts...), "Note")
}

// wantNotes expects the notes from last down to first.
func (k *kit) wantNotes(last, first int) {
	k.Helper()
	texts := call(k.h.Notes(k.Context())).must(k, "Notes")
	var got, want []string
	for _, text := range texts {
		got = append(got, string(text))
	}
	for n := last; n >= first; n-- {
		want = append(want, fmt.Sprintf("note %d\x00\xff", n))
	}
	k.same("the notes", got, want)
}

// What journal.Notebook promises.
var noteChecks = []Check{
	{"NotesAreKeptTheLatestFirst", func(k *kit) {
		k.wantNotes(0, 1)
		k.note(1, 3)
		k.note(1, 0)
		k.note(4, 4)
		k.wantNotes(4, 1)
		k.reopen()
		k.note(5, 5)
		k.wantNotes(5, 1)
	}},
	{"TheOldestNotesGo", func(k *kit) {
		k.note(1, journal.MaxNotes-1)
		k.note(journal.MaxNotes, journal.MaxNotes+10)
		k.wantNotes(journal.MaxNotes+10, 11)
		k.note(journal.MaxNotes+11, journal.MaxNotes+11)
		k.wantNotes(journal.MaxNotes+11, 12)
	}},
}
