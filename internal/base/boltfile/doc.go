// Package boltfile keeps a durable database in one bbolt file. It adds what every
// such file of rshub, rspub and rssub needs:
//
//   - One process has the file at a time (ErrLocked), and a version says which
//     programs can read it (ErrNewer, ErrOlder).
//   - Open reads the structure of the whole file and refuses one that is cut off or
//     makes no sense (DamagedError), before bbolt maps it into memory. bbolt itself
//     has no checksums of pages: it would follow a wrong page number anywhere.
//   - Each value has a checksum of its key, which Open compares, and one of itself,
//     which is compared whenever the value is read. So no record disappears because
//     its key was damaged, and no wrong byte is returned.
//   - A page that becomes unreadable while the file is open fails the transaction that
//     needs it, and ends no process.
//   - Once the file was deleted, with its folder for instance, each transaction fails:
//     nothing counts as durable in a file that nobody can open any more.
//   - Writers share transactions (group commit): what waits while one transaction is
//     synced goes into the next, and each is answered after the sync.
//   - A transaction is durable after one write and one sync of a write-ahead log beside
//     the file. Open writes what the log has to a file that was not closed.
//   - After a commit that failed, the file is opened again, so that nothing of the
//     failed transaction stays in memory.
//
// Package store/embedstore, publisher, publisher/source, subscriber and
// subscriber/destination keep their state with it. It knows nothing of what they store.
package boltfile
