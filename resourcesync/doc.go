// Package resourcesync reads and writes the documents of ResourceSync 1.1: Source
// Descriptions, Capability Lists, Resource Lists and Dumps, Change Lists and Dumps
// with their manifests, the archives and indexes of these, and the change and
// framework notifications that a Source publishes through a hub.
//
// All of them have the same shape, a [Head] and a sequence of [Entry], and go
// through the same few types:
//
//   - [Reader] reads any document, tolerantly unless told otherwise, and lists what
//     it let pass. The vocabularies of older versions come back in the terms of 1.1.
//   - [Writer] writes any document, strictly, and [Splitter] one of any length, as
//     parts and an index where it has to.
//   - [DumpReader] and [DumpWriter] handle the packages of dumps, ZIP files with a
//     manifest; [Hasher] and [ParseHashes] the hashes that go with resources.
//   - [CheckNotification] passes once over a whole notification and applies every
//     rule of the Change Notification and Framework Notification specifications
//     (version 1.0.1); [NotificationReader] goes over the same code and hands out
//     the entries one by one.
//   - [LinksFromHTML], [LinksFromFeed] and [Sitemaps] find the links in pages, feeds
//     and robots.txt with which discovery begins.
//   - [ParseDatetime] and [FormatDatetime] handle W3C datetimes.
//
// Everything is a stream: memory does not grow with the document, and [Limits]
// bound what can be made of it. All readers of XML share one scanner, which
// refuses whatever is not namespace-well-formed XML 1.0 in UTF-8, any DTD and any
// entity beyond the five predefined ones; and Reader and Writer share one table of
// what each kind of document demands (kinds.go), so that what the one writes is
// what the other takes strictly. Each refusal is an [*Error] with the rule, the line
// and the column.
//
// The package does no network I/O, starts no goroutine and logs nothing; it knows
// the standard library, and golang.org/x/net for HTML. What CheckNotification
// learns goes to package validate, which decides whether a notification may enter
// the hub's journal. A Source may write with it what it publishes, a Destination
// read what it gets.
package resourcesync
