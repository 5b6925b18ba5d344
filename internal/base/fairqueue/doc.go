// Package fairqueue hands out jobs to a limited number of workers, so that no party keeps
// the others waiting.
//
// Each job belongs to a party (a host that is called, perhaps with the one who asked for
// the call) and to a pool with workers of its own. This is the rule:
//
//   - A pool runs at most as many jobs at a time as it has workers, and at most a fixed
//     number for one party. So a party that hangs occupies that many workers and no more.
//   - Parties take turns. A party whose job was started goes behind all parties that have
//     been waiting, whatever the number of its jobs. So a party with one job waits for at
//     most one job of each other party, and not for their backlogs.
//   - Within a party, the job that was due first starts first.
//   - Jobs of one pool never wait for those of another. Retries get a pool of their own,
//     so that many dead parties do not delay first tries.
//   - A party can be paused until a time, and so can the queue as a whole.
//
// The caller decides two things. It limits how many jobs there are, and so what it refuses
// when that many wait: only the caller knows whether a job is somewhere else too. And it
// sets Item.Due after a try that failed, by its policy of Retries.
//
// The queue does no I/O and starts no goroutine.
package fairqueue
