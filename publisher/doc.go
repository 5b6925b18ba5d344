// Package publisher is the push side of a ResourceSync Source. It records changes in an
// outbox on disk, and publishes them to hubs as change notifications. Their intervals are
// consecutive, and no crash skips one.
//
//	p, err := publisher.Open(publisher.Options{Dir: dir, Topic: topic, Hubs: hubs})
//	mux.Handle("/changes/", p.Handler()) // where the topic's URL leads
//	go p.Run(ctx)
//	err = p.Record(ctx, publisher.Change{Entry: resourcesync.Entry{Loc: url, Change: resourcesync.Updated}})
//
// The way of a change:
//
//	Record -> queue --cut--> interval --POST--> hub 1: watermark
//	                             |-----POST--> hub 2: watermark
//	                             '--> topic URI and an immutable copy below it
//
// Record returns once the change is on disk. The queue is cut into intervals by time, count
// and size. The bytes of an interval are fixed on disk before anybody sees them, and each
// hub is sent these bytes until it answers 200. Hubs do not wait for each other: each has a
// watermark, the end of the last interval that it acknowledged. Intervals are kept for
// three days after that, for a hub that lost its tail.
//
// The package uses only its folder and its hubs, and logs with log/slog. It does not look
// for changes: the caller does, or package publisher/source.
package publisher
