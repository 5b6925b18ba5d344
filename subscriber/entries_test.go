package subscriber

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rshub/rshub/resourcesync"
)

// What a list says of a change is handed on as it was read, all of it, though no Writer
// would write it; also after a restart. An address is percent-encoded where it should
// have been, and else as it is. DOC-16, LNK-09.
func TestPulledChangesAreWhole_LNK09(t *testing.T) {
	const entries = `<url><loc>https://source.example/with spaces.txt</loc><lastmod>2026-01-01T00:00:00.123456789Z</lastmod>
<rs:md change="updated" datetime="DATETIME" hash="none" length="0" type="strange" encoding="gzip" path="/a" modified="2026-01-01T00:00:00Z"
 capability="x" xmlns:f="https://foreign.example/" f:a="1"/>
<rs:ln rel="Strange One" href="relative 100%" pri="7" length="0" hash="x" type="y" path="/p" encoding="br" modified="2026-01-02T00:00:00Z" profile="z" xmlns:f="https://foreign.example/" f:b="2"/></url>
<url><loc>relative</loc><rs:md change="created" datetime="DATETIME"/></url>
<url><loc>ftp://source.example/a|b</loc><rs:md change="created" datetime="DATETIME"/></url>
<url><loc>https://source.example/100%25/LONG</loc><rs:md change="deleted" datetime="DATETIME"/></url>`
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	long := strings.Repeat("long", 1000)
	subscribed(t, nil, func(l *lab) {
		at := l.second(15)
		list := listOf(l, `from="`+stamp(l, 0)+`" until="`+stamp(l, 30)+`"`, 5)
		list = strings.TrimSuffix(list, "</urlset>") + strings.NewReplacer("DATETIME", resourcesync.FormatDatetime(at), "LONG", long).Replace(entries) + "</urlset>"
		l.page(labList, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(list)) })
		l.pushed(0, 10, 5)
		l.pushed(30, 40, 35)
		l.want("5")
		l.after(time.Minute)
		l.restart()
		var got []resourcesync.Entry
		for c := range l.sub.Waiting(context.Background()) {
			if c.Repaired {
				got = append(got, c.Entry)
			}
		}
		want := []resourcesync.Entry{
			{
				Loc: "https://source.example/with%20spaces.txt", Written: "https://source.example/with spaces.txt", LastMod: day(1).Add(123456789),
				Change: resourcesync.Updated, Datetime: at, Hash: "none", HasLength: true, Type: "strange", Encoding: "gzip", Path: "/a", Modified: day(1), Capability: "x",
				Attributes: []resourcesync.Attribute{{Space: "https://foreign.example/", Name: "a", Value: "1"}},
				Links: []resourcesync.Link{{
					Rel: "Strange One", Href: "relative 100%", Pri: 7, HasLength: true, Hash: "x", Type: "y", Path: "/p", Encoding: "br", Modified: day(2), Profile: "z",
					Attributes: []resourcesync.Attribute{{Space: "https://foreign.example/", Name: "b", Value: "2"}},
				}},
			},
			{Loc: "relative", Change: resourcesync.Created, Datetime: at},
			{Loc: "ftp://source.example/a%7Cb", Written: "ftp://source.example/a|b", Change: resourcesync.Created, Datetime: at},
			{Loc: "https://source.example/100%25/" + long, Change: resourcesync.Deleted, Datetime: at},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(resourcesync.Entry{}, "Line", "Column")); diff != "" {
			l.Errorf("handed on (-want, +got):\n%s", diff)
		}
		if l.gaps() != "missed repaired 10-30:4" || l.status().Trouble != "" {
			l.Errorf("%s, trouble %q", l.gaps(), l.status().Trouble)
		}
	})
}

// A batch that is damaged gives an error, and not a change that nobody made.
func FuzzEntries(f *testing.F) {
	raw, err := packEntries([]resourcesync.Entry{{Loc: "https://source.example/a", Change: resourcesync.Created, Datetime: time.Unix(1, 2)}, {Loc: "b"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(true, raw)
	f.Add(true, raw[:len(raw)-1])
	f.Add(false, []byte("<urlset/>"))
	f.Fuzz(func(t *testing.T, packed bool, raw []byte) {
		next := entriesOf(&batch{Packed: packed}, raw)
		for range len(raw) + 1 {
			if e, err := next(); err != nil {
				if diff := cmp.Diff(resourcesync.Entry{}, e); diff != "" {
					t.Fatal(diff)
				}
				return
			}
		}
		t.Fatal("there is no end to it")
	})
}
