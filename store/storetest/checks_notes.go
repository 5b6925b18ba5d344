package storetest

import (
	"fmt"

	"github.com/rshub/rshub/journal"
)

// addNotes adds notes with these numbers, first to last, and a check reads them back.
func addNotes(k *kit, first, last int) {
	k.Helper()
	var texts [][]byte
	for n := first; n <= last; n++ {
		texts = append(texts, fmt.Appendf(nil, "note %d\x00\xff", n))
	}
	k.ok(k.h.Note(k.Context(), texts...), "Note")
}

// wantNotes expects the notes from last down to first.
func wantNotes(k *kit, last, first int) {
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

// These check what journal.Notebook promises.
var noteChecks = []Check{
	{"NotesAreKeptTheLatestFirst", func(k *kit) {
		wantNotes(k, 0, 1)
		addNotes(k, 1, 3)
		addNotes(k, 1, 0)
		addNotes(k, 4, 4)
		wantNotes(k, 4, 1)
		k.reopen()
		addNotes(k, 5, 5)
		wantNotes(k, 5, 1)
	}},
	{"TheOldestNotesGo", func(k *kit) {
		addNotes(k, 1, journal.MaxNotes-1)
		addNotes(k, journal.MaxNotes, journal.MaxNotes+10)
		wantNotes(k, journal.MaxNotes+10, 11)
		addNotes(k, journal.MaxNotes+11, journal.MaxNotes+11)
		wantNotes(k, journal.MaxNotes+11, 12)
	}},
}
