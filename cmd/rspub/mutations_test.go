package main

import (
	"net/http"
	"strings"
)

// mutation is a defect in a good Source: in file, the first occurrence of old is replaced by
// with. do makes other changes.
type mutation struct {
	name            string
	file, old, with string
	do              func(*mutated)
	want            string // level, path:line:column, rule and first words of a finding
	at              string // the text in the file at the place that want calls @
}

var mutations = []mutation{
	// Discovery and the Source Description.
	{name: "the description lists a capability of its own", file: "/.well-known/resourcesync", old: `capability="capabilitylist"`, with: `capability="resourcelist"`, want: "WARN /.well-known/resourcesync:5:5 DOC-30"},
	{name: "the description ends early", file: "/.well-known/resourcesync", old: "</urlset>\n", with: "", want: "FAIL /.well-known/resourcesync:7:1 XML"},
	{name: "the description has an at", file: "/.well-known/resourcesync", old: `"description"`, with: `"description" at="2025-01-01T00:00:00Z"`, want: "WARN /.well-known/resourcesync:2:3 DOC-30"},
	{name: "the description has the word of version 0.9", file: "/.well-known/resourcesync", old: `"description"`, with: `"resourcesync"`, want: "WARN /.well-known/resourcesync:2:3 DOC-30"},
	{name: "the description lists itself", file: "/.well-known/resourcesync", old: "@URL@/capabilitylist.xml", with: "@URL@/.well-known/resourcesync", want: "FAIL /.well-known/resourcesync:3:3 DOC-30"},
	{name: "no Capability List is there", file: "/.well-known/resourcesync", old: "/capabilitylist.xml", with: "/nowhere.xml", want: "FAIL /.well-known/resourcesync:3:3 DOC-30"},
	{name: "the description lists a file of a disk", file: "/.well-known/resourcesync", old: "@URL@/capabilitylist.xml", with: "file:///capabilitylist.xml", want: "FAIL /.well-known/resourcesync:3:3 DOC-30"},
	{name: "the description lists a Resource List", file: "/.well-known/resourcesync", old: "/capabilitylist.xml", with: "/resourcelist.xml", want: "FAIL /.well-known/resourcesync:3:3 DOC-30"},

	{name: "the description is of no kind", file: "/.well-known/resourcesync", old: `  <rs:md capability="description"/>`, with: "", want: "WARN /.well-known/resourcesync:1:1 DOC-12"},
	{name: "the description is of another kind", file: "/.well-known/resourcesync", old: `"description"`, with: `"descriptions"`, want: "WARN /.well-known/resourcesync:2:3 DOC-12"},
	{name: "the description has a DTD", file: "/.well-known/resourcesync", old: "<urlset", with: "<!DOCTYPE urlset><urlset", want: "FAIL /.well-known/resourcesync:1:1 XML"},
	{name: "the description is empty", do: func(m *mutated) { m.files["/.well-known/resourcesync"] = "" }, want: "FAIL /.well-known/resourcesync:1:1 XML"},
	{name: "the description is compressed, and nobody says so", do: func(m *mutated) { m.gzip["/.well-known/resourcesync"] = true }, want: "FAIL /.well-known/resourcesync:0:0 DOC-60"},

	// The Capability List.
	{name: "the Capability List leads up to another place", file: "/capabilitylist.xml", old: "/.well-known/resourcesync", with: "/other", want: "FAIL /.well-known/resourcesync:3:3 DOC-30"},
	{name: "the Capability List does not lead up", file: "/capabilitylist.xml", old: `rel="up"`, with: `rel="describedby"`, want: "WARN /capabilitylist.xml:3:3 DOC-32"},
	{name: "a capability that nobody knows", file: "/capabilitylist.xml", old: `capability="changedump"`, with: `capability="changedumps"`, want: "WARN /capabilitylist.xml:@ DOC-32", at: `<rs:md capability="changedumps"`},
	{name: "an entry without its capability", file: "/capabilitylist.xml", old: `<rs:md capability="changedump"/>`, with: "", want: "WARN /capabilitylist.xml:7:3 DOC-32"},
	{name: "a capability twice", file: "/capabilitylist.xml", old: `changelist-archive.xml</loc><rs:md capability="changelist-archive"`, with: `changelist-archive.xml</loc><rs:md capability="changelist"`, want: "WARN /capabilitylist.xml:@ DOC-32", at: `<rs:md capability="changelist"/></url>` + "\n  <url><loc>@URL@/changes/"},
	{name: "a list as that of another capability", file: "/capabilitylist.xml", old: `changedump.xml</loc><rs:md capability="changedump"`, with: `changedump.xml</loc><rs:md capability="resourcedump-archive"`, want: "FAIL /capabilitylist.xml:7:3 DOC-32"},
	{name: "a list twice", file: "/capabilitylist.xml", old: "/changelist-archive.xml", with: "/changelist.xml", want: "FAIL /capabilitylist.xml:9:3 DOC-32"},
	{name: "the Capability List lists what leads to it", file: "/capabilitylist.xml", old: "/changelist-archive.xml", with: "/.well-known/resourcesync", want: "FAIL /capabilitylist.xml:9:3 DOC-32"},
	{name: "the Resource List is gone", do: status("/resourcelist.xml", 404), want: "FAIL /capabilitylist.xml:4:3 DOC-32"},
	{name: "the Resource List is for others", do: status("/resourcelist.xml", 403), want: "FAIL /capabilitylist.xml:4:3 DOC-32"},
	{name: "the Resource List can't be had now", do: status("/resourcelist.xml", 503), want: "FAIL /capabilitylist.xml:4:3 DOC-32"},
	{name: "the Resource List is moved in a circle", do: func(m *mutated) {
		m.status["/resourcelist.xml"], m.header["/resourcelist.xml"] = 302, http.Header{"Location": {"/resourcelist.xml"}}
	}, want: "FAIL /capabilitylist.xml:4:3 DOC-32"},
	{name: "the Resource List is a sitemap", file: "/resourcelist-old.xml", old: `<rs:md capability="resourcelist" at="2025-01-01T00:00:00Z" completed="2025-01-01T01:00:00Z"/>`, with: "", want: "FAIL /resourcelist-archive.xml:4:3 DOC-44"},

	// Channels.
	{name: "a channel without a hub", file: "/capabilitylist.xml", old: `rel="hub"`, with: `rel="via"`, want: "FAIL /capabilitylist.xml:10:3 SRC-11"},
	{name: "a channel without any link", file: "/capabilitylist.xml", old: `<rs:ln rel="hub" href="@URL@/hub/"/>`, with: "", want: "FAIL /capabilitylist.xml:10:3 SRC-11"},
	{name: "a hub without its address", file: "/capabilitylist.xml", old: `<rs:ln rel="hub" href="@URL@/hub/"/>`, with: `<rs:ln rel="hub"/>`, want: "FAIL /capabilitylist.xml:10:3 SRC-11"},
	{name: "a channel of version 1.0", file: "/capabilitylist.xml", old: `"change-notification"`, with: `"changelist-notification"`, want: "WARN /capabilitylist.xml:@ DOC-12", at: `<rs:md capability="changelist-notification"`},

	// Links.
	{name: "up leads elsewhere", file: "/resourcelist.xml", old: "/capabilitylist.xml", with: "/other.xml", want: "FAIL /capabilitylist.xml:4:3 DOC-32"},
	{name: "up leads to a list of another host", file: "/changelist.xml", old: "@URL@/capabilitylist.xml", with: "https://example.org/capabilitylist.xml", want: "FAIL /capabilitylist.xml:6:3 DOC-32"},
	{name: "up leads to the same by https", file: "/resourcedump.xml", old: `href="http:`, with: `href="https:`, want: "FAIL /capabilitylist.xml:5:3 DOC-32"},
	{name: "no up", file: "/resourcedump.xml", old: `<rs:ln rel="up" href="@URL@/capabilitylist.xml"/>`, with: "", want: "WARN /resourcedump.xml:3:3 DOC-36"},
	{name: "an up of version 0.9", file: "/resourcedump.xml", old: `rel="up"`, with: `rel="resourcesync"`, want: "WARN /resourcedump.xml:2:3 DOC-54"},
	{name: "a part's up leads elsewhere", file: "/changelist-2.xml", old: "/capabilitylist.xml", with: "/other.xml", want: "FAIL /changelist.xml:5:3 DOC-40"},
	{name: "a part's index leads elsewhere", file: "/changelist-2.xml", old: "/changelist.xml", with: "/other.xml", want: "FAIL /changelist.xml:5:3 DOC-40"},
	{name: "a part without a link to its index", file: "/resourcelist-2.xml", old: `rel="index"`, with: `rel="via"`, want: "WARN /resourcelist.xml:5:3 DOC-35"},
	{name: "a link without a target", file: "/resourcelist-2.xml", old: ` href="https://mirror.example.org/b.txt"`, with: "", want: "WARN /resourcelist-2.xml:@ DOC-52", at: `<rs:ln rel="duplicate"`},
	{name: "a link with a rank of its own", file: "/resourcelist-2.xml", old: `pri="1"`, with: `pri="first"`, want: "WARN /resourcelist-2.xml:@ DOC-52", at: `pri="first"`},

	// Times.
	{name: "no at", file: "/resourcelist-1.xml", old: ` at="2025-01-10T00:00:00Z"`, with: "", want: "WARN /resourcelist-1.xml:4:3 DOC-34"},
	{name: "at is no time", file: "/resourcelist-1.xml", old: ` at="2025-01-10T00:00:00Z"`, with: ` at="yesterday"`, want: "WARN /resourcelist-1.xml:@ DOC-59", at: `at="yesterday"`},
	{name: "completed before at", file: "/resourcelist.xml", old: `completed="2025-01-10T01:00:00Z"`, with: `completed="2025-01-09T01:00:00Z"`, want: "WARN /resourcelist.xml:3:3 DOC-35"},
	{name: "at is another in the entry", file: "/resourcelist.xml", old: `<rs:md at="2025-01-10T00:30:00Z"/>`, with: `<rs:md at="2025-01-10T00:31:00Z"/>`, want: "FAIL /resourcelist.xml:5:3 DOC-35"},
	{name: "completed is another in the entry", file: "/resourcelist-archive.xml", old: `completed="2025-01-01T01:00:00Z"`, with: `completed="2025-01-01T02:00:00Z"`, want: "FAIL /resourcelist-archive.xml:4:3 DOC-44"},
	{name: "until is another in the entry", file: "/changelist-archive.xml", old: `until="2025-01-01T00:00:00Z"`, with: `until="2025-01-02T00:00:00Z"`, want: "FAIL /changelist-archive.xml:4:3 DOC-45"},
	{name: "from is another in the package", file: "/changedump-1.xml", old: `type="application/zip" from="2025-01-01T00:00:00Z"`, with: `type="application/zip" from="2025-01-01T12:00:00Z"`, want: "FAIL /changedump-1.xml:5:3 DOC-41"},
	{name: "a change outside the interval", file: "/changelist-2.xml", old: `datetime="2025-01-02T01:00:00Z"`, with: `datetime="2025-01-04T01:00:00Z"`, want: "WARN /changelist-2.xml:@ DOC-39", at: `<rs:md change="updated"`},
	{name: "changes in the wrong order", file: "/changelist-1.xml", old: `datetime="2025-01-01T01:00:00Z"`, with: `datetime="2025-01-01T03:00:00Z"`, want: "WARN /changelist-1.xml:@ DOC-39", at: `<rs:md change="created" datetime="2025-01-01T02`},
	{name: "lastmod is no time", file: "/resourcelist-1.xml", old: `<lastmod>2025-01-01T00:00:00Z`, with: `<lastmod>1.1.2025`, want: "WARN /resourcelist-1.xml:@ DOC-59", at: `1.1.2025`},

	// Indexes.
	{name: "a part outside the time of its index", file: "/resourcelist-1.xml", old: `completed="2025-01-10T00:30:00Z"`, with: `completed="2025-01-10T02:00:00Z"`, want: "FAIL /resourcelist.xml:4:3 DOC-35"},
	{name: "a gap between parts", file: "/changelist-2.xml", old: `from="2025-01-02T00:00:00Z"`, with: `from="2025-01-02T00:30:00Z"`, want: "FAIL /changelist.xml:5:3 DOC-40"},
	{name: "parts that overlap", file: "/changelist-2.xml", old: `from="2025-01-02T00:00:00Z"`, with: `from="2025-01-01T23:00:00Z"`, want: "FAIL /changelist.xml:5:3 DOC-40"},
	{name: "a gap before the first part", file: "/changelist.xml", old: `"changelist" from="2025-01-01T00:00:00Z"`, with: `"changelist" from="2024-12-01T00:00:00Z"`, want: "FAIL /changelist.xml:4:3 DOC-40"},
	{name: "a gap after the last part", file: "/changedump.xml", old: `until="2025-01-03T00:00:00Z"`, with: `until="2025-01-04T00:00:00Z"`, want: "FAIL /changedump.xml:5:3 DOC-42"},
	{name: "a part before an open one is open", file: "/changelist-2.xml", old: ` until="2025-01-03T00:00:00Z"`, with: "", want: "FAIL /changelist.xml:6:3 DOC-40"},
	{name: "an entry hides that its part is closed", file: "/changelist.xml", old: ` until="2025-01-02T00:00:00Z"`, with: "", want: "FAIL /changelist.xml:4:3 DOC-40"},
	{name: "a part twice", file: "/resourcelist.xml", old: "/resourcelist-2.xml", with: "/resourcelist-1.xml", want: "FAIL /resourcelist.xml:5:3 DOC-35"},
	{name: "a part twice, word for word", file: "/changelist.xml", old: `<sitemap><loc>@URL@/changelist-3.xml`, with: `<sitemap><loc>@URL@/changelist-2.xml</loc><rs:md from="2025-01-02T00:00:00Z" until="2025-01-03T00:00:00Z"/></sitemap>` + "\n  <sitemap><loc>@URL@/changelist-3.xml", want: "FAIL /changelist.xml:6:3 DOC-40: /changelist-2.xml is listed twice"},
	{name: "a part of another kind", file: "/resourcelist.xml", old: "/resourcelist-2.xml", with: "/changelist-old.xml", want: "FAIL /resourcelist.xml:5:3 DOC-35"},
	{name: "an index in an index", file: "/changelist.xml", old: "/changelist-3.xml", with: "/changelist.xml?", want: "FAIL /changelist.xml:6:3 DOC-40"},
	{name: "a part of a dump is gone", do: status("/changedump-2.xml", 410), want: "FAIL /changedump.xml:5:3 DOC-42"},
	{name: "parts in the wrong order", file: "/changelist.xml", old: `<rs:md from="2025-01-01T00:00:00Z" until="2025-01-02T00:00:00Z"/>`, with: `<rs:md from="2025-01-05T00:00:00Z" until="2025-01-06T00:00:00Z"/>`, want: "WARN /changelist.xml:@ DOC-40", at: `<rs:md from="2025-01-02T00:00:00Z"`},

	// Entries.
	{name: "an entry without an address", file: "/changelist-1.xml", old: "<loc>@URL@/data/b.txt</loc>", with: "", want: "FAIL /changelist-1.xml:6:3 DOC-16"},
	{name: "a relative address", file: "/resourcelist-2.xml", old: "<loc>@URL@/data", with: "<loc>/data", want: "FAIL /resourcelist-2.xml:5:13 DOC-16"},
	{name: "an address that is not encoded", file: "/changelist-old.xml", old: "/data/gone.txt", with: "/data/gone file.txt", want: "WARN /changelist-old.xml:4:13 DOC-16"},
	{name: "no change", file: "/changelist-2.xml", old: `change="updated" `, with: "", want: "FAIL /changelist-2.xml:@ DOC-39", at: `<rs:md datetime`},
	{name: "a change of its own", file: "/changelist-2.xml", old: `change="updated"`, with: `change="renamed"`, want: "FAIL /changelist-2.xml:@ DOC-17", at: `change="renamed"`},
	{name: "a change in a Resource List", file: "/resourcelist-1.xml", old: `<rs:md length`, with: `<rs:md change="created" length`, want: "WARN /resourcelist-1.xml:@ DOC-34", at: `<rs:md change="created"`},

	// Hashes and lengths.
	{name: "a hash that is no digest", file: "/resourcelist-1.xml", old: `hash="sha-256:`, with: `hash="sha-256:zz`, want: "WARN /resourcelist-1.xml:@ DOC-55", at: `hash="`},
	{name: "a hash of an unknown algorithm", file: "/resourcelist-2.xml", old: `hash="sha-256:`, with: `hash="crc32:`, want: "WARN /resourcelist-2.xml:@ DOC-55", at: `hash="`},
	{name: "a length that is no number", file: "/resourcelist-1.xml", old: `length="`, with: `length="-`, want: "WARN /resourcelist-1.xml:@ DOC-56", at: `length="`},

	// Dumps and their packages.
	{name: "the package is gone", do: status("/dump.zip", 404), want: "FAIL /resourcedump.xml:4:3 DOC-36"},
	{name: "the package has another length", file: "/resourcedump.xml", old: `length="`, with: `length="1`, want: "FAIL /resourcedump.xml:4:3 DOC-56"},
	{name: "the package has another hash", file: "/resourcedump.xml", old: `hash="sha-256:`, with: `hash="sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709 sha-256:`, want: "FAIL /resourcedump.xml:4:3 DOC-55"},
	{name: "the package is of another dump", file: "/changedump-1.xml", old: "/changes-1.zip", with: "/dump.zip", want: "FAIL /changedump-1.xml:5:3 DOC-41"},
	{name: "the package is no package", file: "/resourcedump.xml", old: "/dump.zip", with: "/data/a.txt", want: "FAIL /data/a.txt:1:1 XML"},
	{name: "the package is cut off", do: func(m *mutated) { m.files["/dump.zip"] = m.files["/dump.zip"][:len(m.files["/dump.zip"])-30] }, want: "FAIL /dump.zip:0:0 DOC-36"},
	{name: "the package is cut off, and its entry knows", do: func(m *mutated) { m.files["/changes-2.zip"] = m.files["/changes-2.zip"][:100] }, want: "FAIL /changedump-2.xml:5:3 DOC-56"},
	{name: "a file of the package is damaged", file: "/dump.zip", old: "resource a", with: "resource A", want: "FAIL /dump.zip:5:3 DOC-36"},
	{name: "a file of the package has another name", do: func(m *mutated) {
		m.files["/changes-2.zip"] = strings.ReplaceAll(m.files["/changes-2.zip"], "data/b.txt", "data/c.txt")
	}, want: "FAIL /changes-2.zip:10:3 DOC-43"},

	// Encodings.
	{name: "not UTF-8", file: "/changelist-old.xml", old: "gone", with: "gon\xe9", want: "FAIL /changelist-old.xml:@ XML", at: "\xe9"},
	{name: "declared as something else", file: "/changelist-old.xml", old: "<urlset", with: `<?xml version="1.0" encoding="ISO-8859-1"?>` + "\n<urlset", want: "FAIL /changelist-old.xml:1:21 XML"},
	{name: "a DTD", file: "/changelist-old.xml", old: "<urlset", with: "<!DOCTYPE urlset>\n<urlset", want: "FAIL /changelist-old.xml:1:1 XML"},
	{name: "compressed, and nobody says so", do: func(m *mutated) { m.gzip["/resourcelist-old.xml"] = true }, want: "FAIL /resourcelist-old.xml:0:0 DOC-60"},
	{name: "compressed, and cut off", do: func(m *mutated) {
		m.files["/resourcelist-old.xml"], m.header["/resourcelist-old.xml"] = "\x1f\x8b\x08\x00\x00", http.Header{"Content-Encoding": {"gzip"}}
	}, want: "FAIL /resourcelist-old.xml:0:0 DOC-60"},
	{name: "another namespace", file: "/changelist-old.xml", old: "http://www.openarchives.org/rs/terms/", with: "http://openarchives.example/rs/terms/", want: "FAIL /changelist-archive.xml:4:3 DOC-45"},
	{name: "a namespace without its slash", file: "/changelist-old.xml", old: "http://www.openarchives.org/rs/terms/", with: "http://www.openarchives.org/rs/terms", want: "FAIL /changelist-old.xml:2:3 DOC-10"},
	{name: "an attribute twice", file: "/changelist-old.xml", old: `change="created"`, with: `change="created" change="created"`, want: "FAIL /changelist-old.xml:@ XML", at: `change="created" datetime`},
	{name: "an entity that nobody declared", file: "/changelist-old.xml", old: "gone.txt", with: "gone&nbsp;.txt", want: "FAIL /changelist-old.xml:@ XML", at: `&nbsp;`},
	{name: "an element that is not closed", file: "/changelist-old.xml", old: "</url>", with: "", want: "FAIL /changelist-old.xml:5:1 XML"},
}

func status(path string, code int) func(*mutated) {
	return func(m *mutated) { m.status[path] = code }
}
