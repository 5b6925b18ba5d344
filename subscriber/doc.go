// Package subscriber is a WebSub subscriber that knows whether it missed
// anything: a callback to put into an HTTP server, and one ordered stream of
// changes for the application behind it.
//
//	hub --POST--> Handler --(signature, continuity, disk)--> inbox --Changes--> application
//	                             |                             ^                    |
//	                         gap found --> Change Lists -------+        Commit <----+
//
// A Subscriber finds the hub of a topic (Discover, DiscoverSource), subscribes with a
// callback that nobody can guess, renews the lease ahead of its end, and answers 2xx to a
// notification only once it is on disk. The intervals of ResourceSync Change Notifications
// have to be continuous: duplicates are dropped, and a notification that comes early waits
// for those before it. If these do not come, the Subscriber reads the Source's Change Lists
// and hands their changes on as if they had been pushed. Each gap is recorded with its
// result. If no list reaches back far enough, the application learns that it needs a new
// baseline. Content of any other kind passes through in the order in which it came.
//
// Where no hub can call the application, the Subscriber reads the stream of the hub in place of
// a callback (ViaStream), with the same inbox behind it. Notifications is that stream alone, for
// small programs.
//
// The package is for embedding. It logs through log/slog, keeps its state in one folder,
// and calls other hosts through a guarded client unless it is given another. Package
// subscriber/destination keeps a copy of a Source with it.
package subscriber
