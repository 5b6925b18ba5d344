package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"mime"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/validate"
)

// Selection says which resources of a Source a copy has. The zero value selects all. A resource is
// selected if each field that is not empty selects it (LNK-07, MEM-03).
type Selection struct {
	// Include and Exclude are patterns of URLs, such as https://a.example/papers/*, as
	// validate.Pattern describes them. A URL has to match one of Include, and none of Exclude.
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Types are media types, such as application/pdf or image/*. The entry of the resource has to
	// state one of them.
	Types []string `json:"types,omitempty"`
	// Collections are URIs. The entry has to have a rel="collection" link to one of them.
	Collections []string `json:"collections,omitempty"`
}

// All reports whether everything is selected.
func (s Selection) All() bool {
	return len(s.Exclude)+len(s.Types)+len(s.Collections) == 0 && (len(s.Include) == 0 || slices.Contains(s.Include, "*"))
}

func (s Selection) equal(other Selection) bool {
	return s.All() && other.All() || reflect.DeepEqual(s, other)
}

// selection is a Selection that is used.
type selection struct {
	Selection
	include, exclude []validate.Pattern
	digest           string // equal for equal ones; empty: everything is selected
}

func newSelection(s Selection) (*selection, error) {
	out := &selection{Selection: s}
	for option, patterns := range map[string][]string{"Include": s.Include, "Exclude": s.Exclude} {
		for _, text := range patterns {
			p, err := validate.ParsePattern(text)
			if err != nil {
				return nil, fmt.Errorf("Options.Select.%s: %w", option, err)
			}
			if option == "Include" {
				out.include = append(out.include, p)
			} else {
				out.exclude = append(out.exclude, p)
			}
		}
	}
	for _, text := range s.Types {
		if t, _, err := mime.ParseMediaType(text); err != nil || t != strings.ToLower(text) || !strings.Contains(t, "/") {
			return nil, fmt.Errorf("Options.Select.Types: %q is not a media type; write it like application/pdf or image/*", text)
		}
	}
	for _, text := range s.Collections {
		if text == "" {
			return nil, errors.New("Options.Select.Collections: an empty text is not the URI of a collection")
		}
	}
	if !s.All() {
		out.digest = digest(fmt.Sprintf("%q", []any{s.Include, s.Exclude, s.Types, s.Collections}), 16)
	}
	return out, nil
}

// chosen is what a selection says of a resource.
type chosen int

const (
	leftOut chosen = iota
	unknown        // the entry does not say what the selection asks for
	selected
)

// of says whether a resource is selected.
func (s *selection) of(w *desired) chosen {
	switch {
	case s.digest == "":
		return selected
	case len(s.include) > 0 && !validate.MatchAny(s.include, w.url), validate.TouchesAny(s.exclude, w.url):
		return leftOut
	}
	is := selected
	if len(s.Types) > 0 {
		is = min(is, s.ask(w, w.mediaType != "", func() bool { return slices.ContainsFunc(s.Types, w.hasType) }))
	}
	if len(s.Collections) > 0 {
		is = min(is, s.ask(w, len(w.collections) > 0, func() bool {
			return slices.ContainsFunc(s.Collections, func(c string) bool { return slices.Contains(w.collections, resourcesync.EncodeURI(c)) })
		}))
	}
	return is
}

// ask says what follows from a property of a resource, which its entry may not state.
func (*selection) ask(w *desired, states bool, fits func() bool) chosen {
	switch {
	case states && fits():
		return selected
	case !states && w.terse:
		return unknown
	}
	return leftOut
}

// hasType reports whether a resource has a media type; image/* stands for each that begins so.
func (w *desired) hasType(want string) bool {
	is, _, _ := strings.Cut(w.mediaType, ";")
	is, want = strings.ToLower(strings.TrimSpace(is)), strings.ToLower(want)
	if major, ok := strings.CutSuffix(want, "*"); ok {
		return strings.HasPrefix(is, major)
	}
	return is == want
}

// select sets what the copy has from now on: what the options say, or else what they said the last
// time. It remembers that, unless nothing may be written.
func (c *Copy) selects() error {
	have, recorded := selectionTable.read(c.state, selectionKey)
	want := have
	switch {
	case c.o.Select != nil:
		want = *c.o.Select
	case !recorded:
		want = c.lostSelection()
	}
	var err error
	if c.selection, err = newSelection(want); err != nil || c.o.DryRun || want.equal(have) {
		return err
	}
	if err := c.state.update(func(w *writer) { selectionTable.put(w, selectionKey, want) }); err != nil {
		return err
	}
	if c.state.count() > 0 {
		c.log.Warn("the selection is another one; files that it leaves out stay until Options.Reselect deletes them", "event", "selection_changed",
			"before", have, "now", want)
	}
	return nil
}

// lostSelection returns the selection that the last status has, if the state was lost: without it the next run would
// copy everything.
func (c *Copy) lostSelection() Selection {
	for _, set := range c.lostStatus() {
		if set.Selection != nil {
			c.log.Warn("the copy has no record of its selection any more; that of the last status is used", "event", "selection_recalled", "selection", *set.Selection)
			return *set.Selection
		}
	}
	return Selection{}
}

// selector decides which resources are copied. It may be shared between goroutines.
type selector struct {
	*selection
	state  *state
	delete bool     // Options.Reselect
	done   sync.Map // the sets whose files that are left out were deleted, by name
}

// wants reports whether the copy is to have a resource. A change need not state the type and the
// collections of its resource; then it is for resources that the copy has. Deletions always count.
func (s *selector) wants(w *desired) bool {
	if w.change.Removes() {
		return true
	}
	is := s.of(w)
	if is != unknown {
		return is == selected
	}
	_, file := s.state.file(w.url)
	_, failed := s.state.failure(w.url)
	return file || failed
}

// drops reports whether the file of a resource that is left out is to be deleted.
func (s *selector) drops(url string) bool {
	_, has := s.state.file(url)
	return s.delete && has
}

// isNew reports whether a set needs a baseline because of the selection.
func (s *selector) isNew(set namedSet, st setState) bool {
	if st.From == "" {
		return false // there is no list to make one from
	}
	_, done := s.done.Load(set.name)
	return st.Selected != s.digest || s.delete && !done
}

// picked is what the selection keeps of a list.
type picked struct {
	selector *selector
	tally    *tally
	n, left  int       // of the chosen ones, and of those that are left out
	drops    []desired // deletions of files that are left out
}

// from yields the resources that are chosen. Marks are changes that were applied already.
func (c *picked) from(wants iter.Seq2[desired, error]) iter.Seq2[desired, error] {
	return func(yield func(desired, error) bool) {
		for w, err := range wants {
			if err == nil && !c.selector.wants(&w) {
				c.left++
				c.tally.leaveOut()
				if c.selector.drops(w.url) {
					c.drops = append(c.drops, absent(w.set, w.url))
				}
				continue
			}
			c.n++
			if !yield(w, err) {
				return
			}
		}
	}
}

// dropUnselected deletes the files of a set that the selection leaves out, if that is allowed.
func (s *syncer) dropUnselected(ctx context.Context, set namedSet, c *picked, listed int, t *tally) error {
	if c.left > 0 && c.n == 0 {
		s.log.Warn("the selection leaves out all resources of the list; a selection by type or collection needs lists that state it", "event", "selection_empty",
			"set", set.name, "resources", listed)
	}
	if err := s.reconciler.deleteAll(ctx, c.drops, t, "the selection leaves it out", 0); err != nil {
		return err
	}
	if s.reconciler.selector.delete && !s.o.DryRun {
		s.reconciler.selector.done.Store(set.name, true)
	}
	return nil
}

// forgetUnselected drops failures that the selection leaves out: they are not tried again.
func (r *reconciler) forgetUnselected() error {
	var urls []string
	for url, f := range r.state.failures() {
		if w := f.again(url); !w.change.Removes() && r.selector.of(&w) == leftOut {
			urls = append(urls, url)
		}
	}
	if len(urls) == 0 {
		return nil
	}
	return r.state.update(func(w *writer) {
		for _, url := range urls {
			failedTable.delete(w, url)
		}
	})
}
