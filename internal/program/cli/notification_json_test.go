package cli

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// Everything that an entry and its links say is in the JSON. LNK-09.
func TestChangesAreWhole_LNK09(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var e resourcesync.Entry
	fill(reflect.ValueOf(&e).Elem(), at)
	e.Links = []resourcesync.Link{{}}
	fill(reflect.ValueOf(&e.Links[0]).Elem(), at)
	e.Attributes = []resourcesync.Attribute{{Space: "urn:a", Name: "b", Value: "c"}}
	e.Links[0].Attributes = e.Attributes
	raw, err := json.Marshal(NewChangeJSON(&e))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	// Length and HasLength are one member; two fields are of sitemaps, two are places in the text.
	if want := reflect.TypeFor[resourcesync.Entry]().NumField() - 5; len(got) != want {
		t.Errorf("%d members, want %d: %s", len(got), want, raw)
	}
	link, _ := got["links"].([]any)[0].(map[string]any)
	if want := reflect.TypeFor[resourcesync.Link]().NumField() - 1; len(link) != want {
		t.Errorf("%d members of a link, want %d: %s", len(link), want, raw)
	}
	for _, attributes := range []any{got["attributes"], link["attributes"]} {
		if !reflect.DeepEqual(attributes, []any{map[string]any{"namespace": "urn:a", "name": "b", "value": "c"}}) {
			t.Errorf("attributes %v", attributes)
		}
	}
	if raw, _ := json.Marshal(NewChangeJSON(&resourcesync.Entry{Loc: "urn:a", Change: "created"})); string(raw) != `{"change":"created","url":"urn:a"}` {
		t.Errorf("%s", raw)
	}
}

// fill gives each field a value.
func fill(v reflect.Value, at time.Time) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(at))
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.CanInt():
			f.SetInt(7)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		}
	}
}
