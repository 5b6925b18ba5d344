package relay

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
)

var prefixes = []string{"https://example.org/"}

const someMD5 = "md5:d41d8cd98f00b204e9800998ecf8427e"

// A change has every field that it was given, in a form, in JSON and in a line (LNK-09).
func TestAllFields_LNK09(t *testing.T) {
	full := source.Given{Change: resourcesync.Created, Resource: source.Resource{
		URL: "https://example.org/a?b=1", Length: 12, MediaType: "text/html", Encoding: "gzip",
		ModTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}}
	full.Resource.SetHash(someMD5)
	form, err := parseForm([]byte("change=created&url=https%3A%2F%2Fexample.org%2Fa%3Fb%3D1&length=12&type=text/html&encoding=gzip&lastmod=2026-01-02T03:04:05Z&hash="+someMD5), prefixes)
	if err != nil || !reflect.DeepEqual(form, []source.Given{full}) {
		t.Errorf("a form: %v, %v", form, err)
	}
	full.Resource.Links = []resourcesync.Link{{
		Rel: "duplicate", Href: "https://mirror.example/a", Pri: 1, Length: 12, HasLength: true, Hash: someMD5, Type: "text/html", Encoding: "gzip",
		Modified: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
	}}
	one := `"change":"created","url":"https://example.org/a?b=1","length":12,"type":"text/html","encoding":"gzip","lastmod":"2026-01-02T03:04:05Z","hash":"` + someMD5 + `",
		"links":[{"rel":"duplicate","href":"https://mirror.example/a","pri":1,"length":12,"hash":"` + someMD5 + `","type":"text/html","encoding":"gzip","modified":"2026-01-02"}]`
	got, err := parseJSON([]byte("{"+one+"}"), prefixes)
	if err != nil || !reflect.DeepEqual(got, []source.Given{full}) {
		t.Errorf("JSON: %v, %v", got, err)
	}
	gone := source.Given{Change: resourcesync.Deleted, Resource: source.Resource{URL: "https://example.org/b", Length: source.UnknownLength}}
	list := "[{" + one + `},{"change":"deleted","url":"https://example.org/b","length":null,"links":null}]`
	if got, err := parseJSON([]byte(list), prefixes); err != nil || !reflect.DeepEqual(got, []source.Given{full, gone}) {
		t.Errorf("a list: %v, %v", got, err)
	}
	if l, err := parseLine([]byte(`{"id":"7",`+one+"}"), prefixes); err != nil || l.id != "7" || !reflect.DeepEqual(l.changes, []source.Given{full}) {
		t.Errorf("a line: %v, %v", l, err)
	}
	if l, err := parseLine([]byte(`{"changes":`+list+"}"), prefixes); err != nil || l.id != "" || !reflect.DeepEqual(l.changes, []source.Given{full, gone}) {
		t.Errorf("a line with a list: %v, %v", l, err)
	}
}

// Each mistake is named in a sentence that says what to do.
func TestMistakes(t *testing.T) {
	const ok = `{"change":"updated","url":"https://example.org/a"}`
	with := func(more string) string { return strings.Replace(ok, "}", ","+more+"}", 1) }
	for _, tc := range []struct{ parser, text, want string }{
		{"json", ``, "it is not JSON: it ends too early"},
		{"json", `{`, "it is not JSON: it ends too early"},
		{"json", `{"change":"updated",}`, "it is not JSON: "},
		{"json", ok + ok, "something follows the end"},
		{"json", "{\"change\":\"\xff\"}", "it is not UTF-8"},
		{"json", `7`, "a change, as an object, or a list"},
		{"json", `[]`, "the list has no changes"},
		{"json", `[` + ok + `,7]`, "change 2 of the list: it is not an object"},
		{"json", `[` + ok + `,{"change":"updated","url":"a"}]`, `change 2 of the list: "a" is not the whole address`},
		{"json", `[` + ok + strings.Repeat(","+ok, MaxChanges) + `]`, "more than 10000 changes"},
		{"json", with(`"ulr":"x"`), `there is no field "ulr"; did you mean url?`},
		{"json", with(`"URL":"x"`), `there is no field "URL"; did you mean url?`},
		{"json", with(`"id":"x"`), `there is no field "id"`},
		{"json", with(`"url":"https://example.org/b"`), `the field "url" is there twice`},
		{"json", with(`"length":"12"`), `"length" has to be a whole number, and is a string`},
		{"json", with(`"length":1.5`), `"length" has to be a whole number, and is the number 1.5`},
		{"json", with(`"length":-1`), `"length" is -1, and cannot be negative`},
		{"json", with(`"lastmod":"yesterday"`), `"lastmod" is "yesterday", which is not a time such as`},
		{"json", with(`"links":[{"rel":"duplicate","href":"https://mirror.example/a","hash":"md5:12"}]`), `link 1: the field "hash" is "md5:12"; write algorithm:digest`},
		{"json", with(`"hash":"md5:12"`), `"hash" is "md5:12"; write algorithm:digest`},
		{"json", with(`"type":"html"`), `"type" is "html", which is not a media type`},
		{"json", with(`"links":{}`), `"links" has to be a list`},
		{"json", with(`"links":[7]`), `"links" has to be a list of objects`},
		{"json", with(`"links":[{"rel":"describedby"}]`), `href of a link is "", which is not a URI`},
		{"json", with(`"links":[{"rel":"Two Words","href":"https://example.org/m"}]`), `rel is "Two Words"`},
		{"json", with(`"links":[{"rel":"describedby","href":"https://example.org/m","type":"html"}]`), `type of a link is "html"`},
		{"json", with(`"links":[{"rel":"duplicate","href":"https://example.org/m","pri":0}]`), `link 1: pri is 0; it must be a number from 1, the best, to 999999`},
		{"json", with(`"links":[{"rel":"duplicate","href":"https://example.org/m","pri":1000000}]`), `pri is 1000000`},
		{"json", with(`"links":[{"rel":"describedby","href":"https://example.org/m","prio":1}]`), `link 1: there is no field "prio"; did you mean pri?`},
		{"json", with(`"links":[{"rel":"alternate","href":"https://example.org/` + strings.Repeat("x", 256<<10) + `"}]`), "its links have 256 KiB, and may have 256"},
		{"json", with(`"links":[{"rel":"alternate","href":"https://example.org/\ud800"}]`), "a link has a control character, or one that is no Unicode"},
		{"json", `{"url":"https://example.org/a"}`, `the field "change" is missing`},
		{"json", `{"change":"updated"}`, `the field "url" is missing`},
		{"json", `{"change":"modified","url":"https://example.org/a"}`, `"change" is "modified"; it has to be created, updated or deleted`},
		{"json", `{"change":"updated","url":"/a"}`, `"/a" is not the whole address`},
		{"json", `{"change":"updated","url":"https://example.org.evil.example/a"}`, "its address has to begin with https://example.org/"},
		{"json", `{"change":"updated","url":"https://example.org/a#b"}`, "has a fragment"},
		{"json", `{"change":"updated","url":"https://example.org/x/../y"}`, "has a dot segment"},
		{"json", `{"change":"updated","url":"https://example.org/x/./y"}`, "has a dot segment"},
		{"json", `{"change":"updated","url":"https://example.org/x/%2e%2E/y"}`, "has a dot segment"},
		{"json", `{"change":"updated","url":"https://example.org/x/..%2f/y"}`, "has a dot segment"},
		{"form", "change=updated&url=https://example.org/x/..", "has a dot segment"},
		{"line", `{"change":"deleted","url":"https://example.org/x/..?a"}`, "has a dot segment"},
		{"json", `{"change":"updated","url":"https://example.org/a b"}`, "percent-encode the space"},
		{"json", `{"change":"updated","url":"https://example.org/\u0000"}`, "has a control character"},
		{"json", `{"change":"updated","url":"https://example.org/%zz"}`, `"https://example.org/%zz" is not an address: invalid URL escape "%zz"`},
		{"json", `{"change":"updated","url":"https://example.org/\ud800"}`, "no Unicode"},
		{"json", `{"change":"updated","url":"https://example.org/` + strings.Repeat("x", 2048) + `"}`, `the field "url" has 2068 characters`},
		{"json", `{"change":"deleted","url":"https://example.org/a","type":"text/html"}`, `the resource is deleted, and so has no "type"`},
		{"form", "change=updated&url=%zz", "it is not a form"},
		{"form", "change=updated&url=https://example.org/a&links=x", `there is no field "links"`},
		{"form", "change=updated&url=https://example.org/a&url=https://example.org/b", `"url" is there 2 times`},
		{"form", "change=updated&url=https://example.org/a&length=many", `"length" is "many", which is not a whole number`},
		{"form", "change=updated&url=https://example.org/%00", "control character"},
		{"line", `[]`, "it has to be an object"},
		{"line", ``, "it is not JSON: it ends too early"},
		{"line", with(`"id":7`), `"id" has to be a string, and is the number 7`},
		{"line", with(`"changes":[]`), "the list has no changes"},
		{"line", `{"changes":7}`, `"changes" has to be a list`},
		{"line", `{"type":"text/html","changes":[` + ok + `]}`, `it has "changes" and fields of a change as well`},
	} {
		var err error
		switch tc.parser {
		case "json":
			_, err = parseJSON([]byte(tc.text), prefixes)
		case "form":
			_, err = parseForm([]byte(tc.text), prefixes)
		case "line":
			_, err = parseLine([]byte(tc.text), prefixes)
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
			t.Errorf("%s %.200s: %v, want %q", tc.parser, tc.text, err, tc.want)
		}
	}
}

// The digest of a request is stored: a later version has to compute the same one. It does not depend on the
// order of fields or hashes, or on how a time is written.
func TestSumStays(t *testing.T) {
	const (
		all = `{"change":"updated","url":"https://example.org/a","lastmod":"2026-11-21T10:00:00+01:00","length":0,"hash":"sha-256:` + shaHex + ` md5:d41d8cd98f00b204e9800998ecf8427e",` +
			`"type":"text/plain","encoding":"gzip","links":[{"rel":"via","href":"https://b.example/","pri":1,"length":2,"hash":"md5:d41d8cd98f00b204e9800998ecf8427e","type":"a/b","encoding":"br","profile":"https://p.example/","modified":"2026-11-21"}]}`
		same = `[{"links":[{"modified":"2026-11-21T00:00:00Z","profile":"https://p.example/","encoding":"br","type":"a/b","hash":"md5:d41d8cd98f00b204e9800998ecf8427e","length":2,"pri":1,"href":"https://b.example/","rel":"via"}],` +
			`"encoding":"gzip","type":"text/plain","hash":"md5:d41d8cd98f00b204e9800998ecf8427e sha-256:` + shaHex + `","length":0,"lastmod":"2026-11-21T09:00:00.000Z","url":"https://example.org/a","change":"updated"}]`
	)
	of := func(body string) string {
		t.Helper()
		changes, err := parseJSON([]byte(body), []string{"https://example.org/"})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sum(changes))
	}
	for body, want := range map[string]string{
		all:  "5dad90404044d041c6de7305512afbe9541625528a903e311eb90976842a8e74",
		same: "5dad90404044d041c6de7305512afbe9541625528a903e311eb90976842a8e74",
		`{"change":"deleted","url":"https://example.org/a"}`: "38678d68c80dafabc044e9da49613873f5d7c2a3b868cab5a458f458db777d2c",
	} {
		if got := of(body); got != want {
			t.Errorf("%s is %s, and must stay %s", body, got, want)
		}
	}
	for _, part := range []string{`"length":0,`, `"type":"text/plain",`, `"pri":1,`, `"length":2,`, `"encoding":"br",`, `"modified":"2026-11-21"`} {
		if other := strings.Replace(strings.Replace(all, part, "", 1), ",}]", "}]", 1); of(other) == of(all) {
			t.Errorf("without %s it is the same", part)
		}
	}
}

const shaHex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
