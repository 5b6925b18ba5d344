// Package resourcesync reads and writes the documents of ResourceSync 1.1: Source
// Descriptions, Capability Lists, Resource Lists and Dumps, Change Lists and Dumps
// with their manifests, the archives and indexes of these, and the change and
// framework notifications that a Source publishes through a hub.
//
// All of them have the same shape, a [Head] and a sequence of [Entry], and go
// through the same few types:
//
//   - [Reader] reads any document, tolerantly by default, and lists what it tolerated.
//     The vocabularies of older versions come back in the terms of 1.1.
//   - [Writer] writes any document, strictly, and [Splitter] one of any length, as parts
//     and an index if needed.
//   - [DumpReader] and [DumpWriter] handle the packages of dumps, ZIP files with a
//     manifest; [Hasher] and [ParseHashes] the hashes that go with resources.
//   - [CheckNotification] reads a whole notification once and applies every rule of the
//     Change Notification and Framework Notification specifications (version 1.0.1);
//     [NotificationReader] runs the same code and returns the entries one by one.
//   - [LinksFromHTML], [LinksFromFeed] and [Sitemaps] find the links in pages, feeds
//     and robots.txt with which discovery begins.
//   - [ParseDatetime] and [FormatDatetime] handle W3C datetimes.
//
// Everything is a stream: memory does not grow with the document, and [Limits] bound it.
// All readers of XML share one scanner. It refuses everything that is not
// namespace-well-formed XML 1.0 in UTF-8, any DTD, and any entity except the five
// predefined ones. Reader and Writer share one table of what each kind of document
// demands (kinds.go), so a strict Reader accepts what a Writer writes. Each refusal is an
// [*Error] with the rule, the line and the column.
//
// The package does no network I/O, starts no goroutine and logs nothing. It imports the
// standard library, and golang.org/x/net for HTML. Package validate decides by the result
// of CheckNotification whether a notification may enter the hub's journal. A Source
// writes with this package what it publishes, and a Destination reads what it gets.
package resourcesync
