package catalogue

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rshub/rshub/internal/base/strictjson"
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

	in *strictjson.Reader // of the line
}

type wireLink struct {
	Rel      string `json:"rel"`
	Href     string `json:"href"`
	Pri      *int64 `json:"pri,omitempty"`
	Length   *int64 `json:"length,omitempty"`
	Hash     string `json:"hash,omitempty"`
	Type     string `json:"type,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Profile  string `json:"profile,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// fields are those of a line.
func (w *wire) fields() []strictjson.Field {
	return []strictjson.Field{
		{Name: "url", Into: &w.URL},
		{Name: "path", Into: &w.Path},
		{Name: "content", Into: &w.Content},
		{Name: "length", Into: &w.Length},
		{Name: "hash", Into: &w.Hash},
		{Name: "type", Into: &w.Type},
		{Name: "encoding", Into: &w.Encoding},
		{Name: "lastmod", Into: &w.LastMod},
		{Name: "links", Into: w.readLinks},
		{Name: "deleted", Into: &w.Deleted},
		{Name: "begin", Into: &w.Begin},
		{Name: "end", Into: &w.End},
		{Name: "count", Into: &w.Count},
	}
}

// readLinks reads the links.
func (w *wire) readLinks() error {
	r := w.in
	if r.Null() {
		return nil
	}
	wrong := errors.New(`the field "links" has to be a list of objects, each with "rel" and "href"`)
	if r.Kind() != '[' {
		return wrong
	}
	return r.List(func() error {
		if r.Kind() != '{' {
			return wrong
		}
		w.Links = append(w.Links, wireLink{})
		if err := r.Object(w.Links[len(w.Links)-1].fields()); err != nil {
			return fmt.Errorf("link %d: %w", len(w.Links), err)
		}
		return nil
	})
}

// fields are those of a link.
func (w *wireLink) fields() []strictjson.Field {
	return []strictjson.Field{
		{Name: "rel", Into: &w.Rel},
		{Name: "href", Into: &w.Href},
		{Name: "pri", Into: &w.Pri},
		{Name: "length", Into: &w.Length},
		{Name: "hash", Into: &w.Hash},
		{Name: "type", Into: &w.Type},
		{Name: "encoding", Into: &w.Encoding},
		{Name: "profile", Into: &w.Profile},
		{Name: "modified", Into: &w.Modified},
	}
}

// parse reads a line without its end. The key of the entry is returned with an error, too, if the line is JSON.
func (r *Reader) parse(text []byte) (l Line, err error) {
	in, err := strictjson.New(text)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return l, fmt.Errorf("%w; was the line cut off, or does it have a line break in it?", err)
	case errors.Is(err, strictjson.ErrMore):
		return l, fmt.Errorf("%w; write one JSON object on each line", err)
	case err != nil:
		return l, err
	case in.Kind() != '{':
		return l, fmt.Errorf("it is %s; write one JSON object on each line", in.Is())
	}
	w := &r.wire
	*w = wire{in: in}
	err = in.Object(r.fields)
	l.Entry.URL, l.Entry.Path = w.URL, w.Path
	if err != nil {
		return l, err
	}
	return l, w.line(&l)
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
	l := resourcesync.Link{Rel: w.Rel, Href: w.Href, Hash: w.Hash, Type: w.Type, Encoding: w.Encoding, Profile: w.Profile}
	if w.Rel == "" || w.Href == "" {
		return l, errors.New("it lacks rel or href; both are needed")
	}
	if w.Length != nil {
		l.Length, l.HasLength = *w.Length, true
	}
	if w.Pri != nil {
		if err := resourcesync.CheckPri(*w.Pri); err != nil {
			return l, err
		}
		l.Pri = int(*w.Pri)
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
		x := wireLink{Rel: l.Rel, Href: l.Href, Hash: l.Hash, Type: l.Type, Encoding: l.Encoding, Profile: l.Profile}
		if l.Pri != 0 {
			pri := int64(l.Pri)
			x.Pri = &pri
		}
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
