package catalogue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rshub/rshub/internal/base/nearest"
	"github.com/rshub/rshub/resourcesync"
)

// wire is a line as JSON.
type wire struct {
	URL      string     `json:"url,omitempty"`
	Path     string     `json:"path,omitempty"`
	Content  string     `json:"content,omitempty"`
	Length   *int64     `json:"length,omitempty"`
	Hash     string     `json:"hash,omitempty"`
	Type     string     `json:"type,omitempty"`
	Encoding string     `json:"encoding,omitempty"`
	LastMod  string     `json:"lastmod,omitempty"`
	Links    []wireLink `json:"links,omitempty"`
	Deleted  bool       `json:"deleted,omitempty"`
	Begin    string     `json:"begin,omitempty"`
	End      bool       `json:"end,omitempty"`
	Count    *int64     `json:"count,omitempty"`
}

type wireLink struct {
	Rel      string `json:"rel"`
	Href     string `json:"href"`
	Pri      int    `json:"pri,omitempty"`
	Length   *int64 `json:"length,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Type     string `json:"type,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Profile  string `json:"profile,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// The fields of a line and of a link.
var (
	lineFields = []string{"url", "path", "content", "length", "hash", "type", "encoding", "lastmod", "links", "deleted", "begin", "end", "count"}
	linkFields = []string{"rel", "href", "pri", "length", "hash", "type", "encoding", "profile", "modified"}
)

// parse reads a line without its end. The key of the entry is returned with an error, too, if it could be
// read.
func parse(text []byte) (l Line, err error) {
	if !utf8.Valid(text) {
		return l, errors.New("it is not UTF-8; write the catalogue in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var w wire
	err = d.Decode(&w)
	l.Entry.URL, l.Entry.Path = w.URL, w.Path
	if err != nil {
		return l, explain(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return l, errors.New("there is more after the object; write one JSON object on each line")
	}
	return l, w.line(&l)
}

// explain says what is wrong with JSON.
func explain(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("%s is a %s; docs/publisher.md says what it has to be", cmp.Or(kind.Field, "the line"), kind.Value)
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name, _ := strconv.Unquote(quoted)
		return fmt.Errorf("there is no field %s%s", quoted, nearest.DidYouMean(name, append(lineFields, linkFields...)))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the JSON object does not end; was the line cut off, or does it have a line break in it?")
	}
	return fmt.Errorf("it is not a JSON object: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// line turns w into a line.
func (w *wire) line(l *Line) (err error) {
	switch entry := w.URL != "" || w.Path != ""; {
	case w.Begin != "" && (entry || w.End), w.End && entry:
		return errors.New("it is an entry, and begins or ends the catalogue too; write two lines")
	case w.Begin != "" && w.Begin != beginChanges:
		return fmt.Errorf(`begin is %q; it can only be %q`, w.Begin, beginChanges)
	case w.Begin != "":
		l.Kind = Changes
		return nil
	case w.End && (w.Count == nil || *w.Count < 0):
		return errors.New(`the end says no count; write {"end":true,"count":N} with the number of entries before it`)
	case w.End:
		l.Kind, l.Count = End, *w.Count
		return nil
	case w.Count != nil:
		return errors.New(`count belongs to the end; write {"end":true,"count":N} on a line of its own`)
	}
	if l.Entry, err = w.entry(); err != nil {
		return err
	}
	return l.Entry.Check()
}

// entry turns w into an entry.
func (w *wire) entry() (Entry, error) {
	e := Entry{URL: w.URL, Path: w.Path, Content: w.Content, Hash: w.Hash, Type: w.Type, Encoding: w.Encoding, Deleted: w.Deleted}
	if w.Length != nil {
		e.Length, e.HasLength = *w.Length, true
	}
	var err error
	if e.LastMod, err = datetime("lastmod", w.LastMod); err != nil {
		return e, err
	}
	for i := range w.Links {
		l, err := w.Links[i].link()
		if err != nil {
			return e, fmt.Errorf("link %d: %w", i+1, err)
		}
		e.Links = append(e.Links, l)
	}
	return e, nil
}

func (w *wireLink) link() (resourcesync.Link, error) {
	l := resourcesync.Link{Rel: w.Rel, Href: w.Href, Pri: w.Pri, Hash: w.Hash, Type: w.Type, Encoding: w.Encoding, Profile: w.Profile}
	if w.Rel == "" || w.Href == "" {
		return l, errors.New("it lacks rel or href; both are needed")
	}
	if w.Length != nil {
		l.Length, l.HasLength = *w.Length, true
	}
	var err error
	if l.Modified, err = datetime("modified", w.Modified); err != nil {
		return l, err
	}
	return l, checkHash(w.Hash)
}

// datetime reads a time, which may be absent.
func datetime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := resourcesync.ParseDatetime(text)
	if err != nil {
		return t, fmt.Errorf("%s: %w", field, err)
	}
	return t, nil
}

// wireOf is the inverse of entry.
func wireOf(e *Entry) *wire {
	w := &wire{URL: e.URL, Path: e.Path, Content: e.Content, Hash: e.Hash, Type: e.Type, Encoding: e.Encoding, Deleted: e.Deleted}
	if e.HasLength {
		w.Length = &e.Length
	}
	if !e.LastMod.IsZero() {
		w.LastMod = resourcesync.FormatDatetime(e.LastMod)
	}
	for i := range e.Links {
		l := &e.Links[i]
		x := wireLink{Rel: l.Rel, Href: l.Href, Pri: l.Pri, Hash: l.Hash, Type: l.Type, Encoding: l.Encoding, Profile: l.Profile}
		if l.HasLength {
			x.Length = &l.Length
		}
		if !l.Modified.IsZero() {
			x.Modified = resourcesync.FormatDatetime(l.Modified)
		}
		w.Links = append(w.Links, x)
	}
	return w
}
