// Package publisher is the push side of a ResourceSync Source: it takes changes,
// keeps them in an outbox on disk, and publishes them to hubs as change
// notifications, in consecutive intervals of which none is ever skipped, whatever
// is killed when.
//
//	p, err := publisher.Open(publisher.Options{Dir: dir, Topic: topic, Hubs: hubs})
//	mux.Handle("/changes/", p.Handler()) // where the topic's URL leads
//	go p.Run(ctx)
//	err = p.Record(ctx, publisher.Change{Entry: resourcesync.Entry{Loc: url, Change: resourcesync.Updated}})
//
// What becomes of a change:
//
//	Record -> queue --cut--> interval --POST--> hub 1: watermark
//	                             |-----POST--> hub 2: watermark
//	                             '--> topic URI and an immutable copy below it
//
// Record returns once the change is on disk. The queue is cut into intervals by
// time, count and size; the bytes of an interval are fixed on disk before anybody
// sees them, and each hub is sent these bytes until it answers 200. Hubs don't wait
// for each other: each has a watermark, the end of the last interval that it
// acknowledged. Intervals are kept for three days after that, for a hub that
// lost its tail.
//
// The package may touch the folder that it is given and the hubs that it is told,
// and it logs with log/slog. It knows nothing of where changes come from: that is
// the caller's business, or that of package publisher/source.
package publisher
