// Package fairqueue hands out jobs to a limited number of workers, so that no party keeps
// the others waiting.
//
// Each job belongs to a party (a host that is called, perhaps with the one who asked for
// the call) and to a class with workers of its own. This is the rule:
//
//   - A class runs at most as many jobs at a time as it has workers, and at most a fixed
//     number for one party. So a party that hangs takes that many workers and no more.
//   - Parties take turns. A party whose job was started goes behind all parties that have
//     been waiting, whatever the number of its jobs. So a party with one job waits for at
//     most one job of each other party, and not for their backlogs.
//   - Within a party, the job that was due first starts first.
//   - Jobs of one class never wait for those of another. Retries get a class of their own,
//     so that many dead parties do not delay first tries.
//   - A party can be put on hold until a time, and the queue as a whole can rest.
//
// How long to wait between tries is the caller's retry policy: it sets Item.Due. The queue
// does not limit how many jobs there are. It does no I/O and starts no goroutine.
package fairqueue
