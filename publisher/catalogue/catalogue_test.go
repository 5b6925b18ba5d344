package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rshub/rshub/resourcesync"
)

// read returns the lines of a catalogue, and the errors of those that are wrong.
func read(t testing.TB, text string) (lines []Line, wrong []*LineError) {
	t.Helper()
	r := NewReader(strings.NewReader(text))
	for {
		l, err := r.Next()
		var bad *LineError
		switch {
		case errors.Is(err, io.EOF):
			return lines, wrong
		case errors.As(err, &bad):
			wrong = append(wrong, bad)
		case err != nil:
			t.Fatal(err)
		default:
			lines = append(lines, l)
		}
	}
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// schema returns what validates a line by the JSON Schema.
func schema(t *testing.T) func(line string) error {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(line string) error {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			return err
		}
		return resolved.Validate(v)
	}
}

// The reader and the schema agree on what a line may be.
func TestReaderAndSchemaAgree(t *testing.T) {
	validate := schema(t)
	for _, line := range linesOf(t, "testdata/good.jsonl") {
		if _, wrong := read(t, line); len(wrong) > 0 {
			t.Errorf("%s: the reader refuses it: %v", line, wrong[0])
		}
		if err := validate(line); err != nil {
			t.Errorf("%s: the schema refuses it: %v", line, err)
		}
	}
	for _, line := range linesOf(t, "testdata/bad.jsonl") {
		if lines, _ := read(t, line); len(lines) > 0 {
			t.Errorf("%s: the reader accepts it", line)
		}
		if validate(line) == nil {
			t.Errorf("%s: the schema accepts it", line)
		}
	}
}

// The examples of the manual are catalogues.
func TestExamplesOfTheManual(t *testing.T) {
	validate := schema(t)
	text, err := os.ReadFile("../../docs/publisher.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, `{"url"`) && !strings.HasPrefix(line, `{"path"`) && !strings.HasPrefix(line, `{"end"`) && !strings.HasPrefix(line, `{"begin"`) {
			continue
		}
		examples++
		if _, wrong := read(t, line); len(wrong) > 0 {
			t.Errorf("%s: %v", line, wrong[0])
		}
		if err := validate(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if examples < 8 {
		t.Errorf("docs/publisher.md has %d lines of catalogues", examples)
	}
}

// A line that is wrong is named, with what to do; the others are read.
func TestBadLineLosesNothingOfTheOthers(t *testing.T) {
	const good = `{"url":"https://example.org/1"}`
	for bad, want := range map[string]string{
		`{"url":"https://example.org/2","lengt":1}`:                     `line 3 ("https://example.org/2"): there is no field "lengt"; did you mean length?`,
		`{"url":"https://example.org/2","length":"1"}`:                  `line 3 ("https://example.org/2"): the field "length" has to be a whole number, and is a string`,
		`{"url":"https://example.org/2"`:                                `it ends too early; was the line cut off`,
		`{"url":"https://example.org/2"} x`:                             `one JSON object on each line`,
		`url,length`:                                                    `it is not JSON: invalid character`,
		`{"url":"https://example.org/2","Length":1}`:                    `line 3 ("https://example.org/2"): there is no field "Length"; did you mean length?`,
		`{"url":"https://example.org/2","url":"https://example.org/3"}`: `the field "url" is there twice`,
		`["https://example.org/2"]`:                                     `it is a list; write one JSON object on each line`,
		`{"path":"a/../b"}`:                                             `line 3 ("a/../b"): path is`,
		`{"url":"https://me:pw@example.org/2"}`:                         `remove everything up to the @`,
		"{\"url\":\"https://example.org/\xff\"}":                        `it is not UTF-8`,
		`{"path":"` + strings.Repeat("x", MaxLine) + `"}`:               `line 3: it has more than 1048576 bytes`,
		`{"path":"a","content":"https://example.org/a"}`:                `give only the one`,

		`{"path":"a","links":[{"rel":"duplicate","href":"https://example.org/a","pri":0}]}`: `link 1: pri is 0; it must be a number from 1`,
	} {
		lines, wrong := read(t, "\ufeff"+good+"\n\n"+bad+"\n"+good+"\r\n"+good)
		if len(lines) != 3 || lines[0].Number != 1 || lines[1].Number != 4 || lines[2].Number != 5 {
			t.Errorf("%.80s: the others are %+v", bad, lines)
		}
		if len(wrong) != 1 || !strings.Contains(wrong[0].Error(), want) {
			t.Errorf("%.80s: %v, want %s", bad, wrong, want)
		}
	}
}

// A line as long as is allowed can be read.
func TestLongLine(t *testing.T) {
	line := `{"path":"` + strings.Repeat("x", MaxLine-20) + `"}`
	if lines, wrong := read(t, line+"\n"+line); len(lines) != 2 {
		t.Errorf("%d lines, %v", len(lines), wrong)
	}
}

// An error of the reader below ends the catalogue, and is no end of it.
func TestReadErrorIsNoEnd(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("{\"path\":\"a\"}\n"), errReader{broken}))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// Waiting tells a whole line from none and from a part of one.
func TestWaiting(t *testing.T) {
	in, out := io.Pipe()
	r := NewReader(in)
	go func() { _, _ = io.WriteString(out, "{\"path\":\"a\"}\n{\"path\":\"b\"}\n{\"path\":") }()
	for _, want := range []bool{false, true} {
		if _, err := r.Next(); err != nil || r.Waiting() != want {
			t.Errorf("waiting %v, %v", r.Waiting(), err)
		}
	}
}

func ExampleWriter() {
	var out bytes.Buffer
	w := NewWriter(&out)
	for i := range 2 {
		err := w.Write(Entry{
			URL:  fmt.Sprintf("https://repo.example.org/item/%d?a&b", i),
			Type: "text/html", LastMod: time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC),
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(w.Write(Entry{URL: "item/3"}))
	_ = w.End() // a bytes.Buffer never fails
	fmt.Print(out.String())
	// Output:
	// "item/3": url is "item/3"; it must be an absolute address such as https://example.org/a, percent-encoded and without a fragment
	// {"url":"https://repo.example.org/item/0?a&b","type":"text/html","lastmod":"2026-11-25T10:00:00Z"}
	// {"url":"https://repo.example.org/item/1?a&b","type":"text/html","lastmod":"2026-11-25T10:00:00Z"}
	// {"end":true,"count":2}
}

// A Writer writes nothing that a Reader refuses, or that names another file.
func TestWriterWritesWhatReadersRead(t *testing.T) {
	link := func(l resourcesync.Link) Entry {
		return Entry{URL: "https://example.org/a", Links: []resourcesync.Link{l}}
	}
	far := time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, e := range map[string]Entry{
		"a long line":        {URL: "https://example.org/" + strings.Repeat("a", MaxLine)},
		"a far time":         {URL: "https://example.org/a", LastMod: far},
		"a path in Latin-1":  {Path: "caf\xe9.txt"},
		"a wrong pri":        link(resourcesync.Link{Rel: "via", Href: "https://example.org/b", Pri: -1}),
		"a link without rel": link(resourcesync.Link{Href: "https://example.org/b"}),
		"the hash of a link": link(resourcesync.Link{Rel: "via", Href: "https://example.org/b", Hash: "md5:b"}),
		"the time of a link": link(resourcesync.Link{Rel: "via", Href: "https://example.org/b", Modified: far}),
	} {
		var out bytes.Buffer
		w := NewWriter(&out)
		if err := w.Write(e); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, %.200q", what, err, out.String())
		}
		if err := errors.Join(w.Write(Entry{Path: "caf\u00e9.txt"}), w.End()); err != nil {
			t.Error(err)
		}
		if lines, wrong := read(t, out.String()); len(wrong) > 0 || len(lines) != 2 || lines[1].Count != 1 {
			t.Errorf("%s: then %+v, %v", what, lines, wrong)
		}
	}
}

// What is read can be written, and is read as the same.
func FuzzReader(f *testing.F) {
	for _, file := range []string{"testdata/good.jsonl", "testdata/bad.jsonl"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, _ := read(t, string(text))
		for _, l := range lines {
			if l.Kind != EntryLine {
				continue
			}
			var out bytes.Buffer
			if err := NewWriter(&out).Write(l.Entry); err != nil {
				t.Fatalf("%+v: %v", l.Entry, err)
			}
			again, wrong := read(t, out.String())
			if len(wrong) > 0 || len(again) != 1 || !reflect.DeepEqual(again[0].Entry, l.Entry) {
				t.Errorf("%+v came back as %+v, %v", l.Entry, again, wrong)
			}
		}
	})
}
