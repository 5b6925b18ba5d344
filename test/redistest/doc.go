// Package redistest starts real redis-server processes for tests, on free
// loopback ports and in folders of their own: [Standalone], [Sentinel] and
// [Cluster]. It can do to them what happens to servers: kill, freeze, restart,
// fail over, promote a replica that lost the tail, move a slot.
//
// A server ends with the test that asked for it. With [Shared] it stays for
// the other tests of the binary that ask for the same one. Whatever happens,
// none outlives the test binary, not even one that is killed.
//
// Only tests import it, and it imports nothing of the hub.
package redistest
