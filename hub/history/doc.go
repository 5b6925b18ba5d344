// Package history reads the journal back over HTTP, for readers that no hub can call: what
// changed since an instant, as a Change List (MEM-01), single notifications, and a stream of
// events.
//
// A reader is a cursor over the same journal that package delivery reads: there is no second
// queue and no buffer of what is yet to be sent. The place of a reader is a Position, which the
// reader stores itself. Whatever a reader asks for, it receives every notification after its
// position in order, or a gap in its place.
//
// No store transaction is open while bytes go to a reader: entries are read in pages, and a page
// is in memory when its first byte is written.
//
// A few goroutines (writers) write to all streams in turn. The goroutine of a stream's request only notices
// when the reader goes away. Another goroutine writes what a connection does not accept at once.
//
// Package hub decides which requests come here, who may ask, and how a refusal is answered. The
// package imports journal, resourcesync and internal/base.
package history
