// Package subscriber is a WebSub subscriber that knows whether it missed
// anything: a callback to put into an HTTP server, and one ordered stream of
// changes for the application behind it.
//
//	hub --POST--> Handler --(signature, continuity, disk)--> inbox --Changes--> application
//	                             |                             ^                    |
//	                         gap found --> Change Lists -------+        Commit <----+
//
// A Subscriber finds the hub of a topic (Discover, DiscoverSource), subscribes
// with a callback that nobody can guess, renews the lease ahead of its end, and
// answers 2xx to a notification only once it is on disk. The intervals of
// ResourceSync Change Notifications have to follow one on the other: what comes
// twice is dropped, what comes early is held for a while, and what does not come
// is taken from the Source's Change Lists and handed on as if it had been
// pushed. Each gap is recorded with what became of it; where no list reaches
// back far enough the application is told that it needs a new baseline. Content
// of any other kind passes through in the order in which it came.
//
// The package is for embedding: it logs through log/slog, keeps its state in one
// folder, and calls other hosts through a guarded client unless it is given
// another. Package subscriber/destination keeps a copy of a Source with it.
package subscriber
