package strictjson

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// object is what a test reads.
type object struct {
	name, other string
	flag        bool
	n           int
	length      *int64
	list        []string
}

func (o *object) read(text string) error {
	r, err := New([]byte(text))
	if err != nil {
		return err
	}
	if r.Kind() != '{' {
		return errors.New("it is " + r.Is())
	}
	return r.Object([]Field{
		{"name", &o.name},
		{"other", &o.other},
		{"flag", &o.flag},
		{"n", &o.n},
		{"length", &o.length},
		{"list", func() error {
			if r.Kind() != '[' {
				return errors.New("list is " + r.Is())
			}
			return r.List(func() error {
				var x struct{ s string }
				if r.Kind() != '{' {
					return errors.New("an element is " + r.Is())
				}
				err := r.Object([]Field{{"s", &x.s}})
				o.list = append(o.list, x.s)
				return err
			})
		}},
	})
}

func TestObject(t *testing.T) {
	var o object
	err := o.read(` { "name" : "a\u00e9\"\ud800" , "other":null,"flag":true,"n":-7,"length":9007199254740993,"list":[ {"s":"x"} ,{"s":"y\\"}, {} ] } `)
	if err != nil || o.name != "aé\"\uFFFD" || !o.flag || o.n != -7 || *o.length != 9007199254740993 || !slices.Equal(o.list, []string{"x", `y\`, ""}) {
		t.Errorf("%+v, %v", o, err)
	}
	if err := (&object{}).read("{}"); err != nil {
		t.Error(err)
	}
}

// Mistakes are named, and what is right is read nevertheless.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{"Name":"A","name":"a"}`:                           `there is no field "Name"; did you mean name? (the fields are name, other,`,
		`{"NAME":[{"a":"]}"},1e5,null],"name":"a"}`:         `there is no field "NAME"`,
		`{"name":"a","name":"b"}`:                           `the field "name" is there twice`,
		`{"other":7,"name":"a"}`:                            `the field "other" has to be a string, and is the number 7`,
		`{"flag":"true","name":"a"}`:                        `the field "flag" has to be true or false, and is a string`,
		`{"length":1.5,"name":"a"}`:                         `the field "length" has to be a whole number, and is the number 1.5`,
		`{"length":9223372036854775808,"name":"a"}`:         `is the number 9223372036854775808`,
		`{"n":[1],"name":"a"}`:                              `the field "n" has to be a whole number, and is a list`,
		`{"n":{},"name":"a"}`:                               `is an object`,
		`{"n":false,"name":"a"}`:                            `is a bool`,
		`{"list":7,"name":"a"}`:                             `list is the number 7`,
		`{"list":[{"s":"x"},7,{"s":"y"}],"name":"a"}`:       `an element is the number 7`,
		`{"list":[{"t":{"s":[]}},{}],"name":"a"}`:           `there is no field "t"`,
		`{"x":1,"y":2,"length":"","name":"a"}`:              `there is no field "x"`,
		`{"` + strings.Repeat("x", 200) + `":1,"name":"a"}`: `x..." (the`,
	} {
		var o object
		if err := o.read(text); err == nil || !strings.Contains(err.Error(), want) || o.name != "a" {
			t.Errorf("%s: %v, name %q; want %s", text, err, o.name, want)
		}
	}
}

func TestMalformed(t *testing.T) {
	for text, want := range map[string]string{
		"": "it ends too early", `{"name":`: "it ends too early", `{"name":"a"`: "it ends too early",
		"{}{}": "something follows the end of the JSON", `{"name":x}`: "at byte 9", "{\"name\":\"\xff\"}": "it is not UTF-8",
	} {
		err := (&object{}).read(text)
		if !errors.As(err, new(*Malformed)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) != strings.Contains(want, "early") || errors.Is(err, ErrMore) != strings.Contains(want, "follows") {
			t.Errorf("%s: the cause is %v", text, errors.Unwrap(err))
		}
	}
}

// What is read is what encoding/json reads, and skipping a value ends where it ends.
func FuzzObject(f *testing.F) {
	for _, text := range []string{`{"name":"a\u00e9","n":1,"x":[{"y":"]"},-1.5e3,null,true]}`, `{"list":[{"s":"x"}],"length":5}`, `[1]`, `{"flag":false}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var o object
		err := o.read(text)
		if errors.As(err, new(*Malformed)) {
			if json.Valid([]byte(text)) && !strings.Contains(err.Error(), "UTF-8") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		r := &Reader{text: []byte(text)}
		if r.skip(); r.Kind() != 0 {
			t.Errorf("%q: %q is left", text, text[r.at:])
		}
		var want struct {
			Name   string `json:"name"`
			Flag   bool   `json:"flag"`
			N      int    `json:"n"`
			Length *int64 `json:"length"`
			Other  string `json:"other"`
			List   []struct {
				S string `json:"s"`
			} `json:"list"`
		}
		if err != nil {
			return
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q: encoding/json: %v", text, err)
		}
		if want.Name != o.name || want.Flag != o.flag || want.N != o.n || want.Other != o.other || (want.Length == nil) != (o.length == nil) || want.Length != nil && *want.Length != *o.length || len(want.List) != len(o.list) {
			t.Errorf("%q: %+v, want %+v", text, o, want)
		}
	})
}
