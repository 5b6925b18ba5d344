// Package redistest starts real redis-server processes for tests, on free
// loopback ports and each in its own folder: [Standalone], [Sentinel] and
// [Cluster]. A test can kill, freeze and restart a server, fail over, promote a
// replica that lost the latest writes, and move a slot.
//
// A server ends with the test that started it. With [Shared] it stays for
// the other tests of the binary that ask for the same one. No server outlives
// the test binary, even if the binary is killed.
//
// Only tests import this package. It imports nothing of the hub.
package redistest
