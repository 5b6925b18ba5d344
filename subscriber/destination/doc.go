// Package destination keeps a copy of a ResourceSync Source, and can prove that
// the copy is in sync.
//
//	Resource List or Dump --> baseline --+
//	                                     +--> fetch, verify, rename --> the copy
//	subscriber: pushed or pulled changes-+                                |
//	                                                    audit <-----------+
//
// The baseline takes whatever the Source offers and is cheaper. After it, package
// subscriber hands on the changes, in order and each until it is done with,
// whether they were pushed by a hub or taken from Change Lists. Files are written
// aside, checked against the length and hashes that the Source gives, and renamed:
// nothing appears in the copy that is not whole. What cannot be had is noted, tried
// again, and counted, and holds up nothing else.
//
// Nothing that a Source says is trusted with the file system or with other hosts:
// addresses become paths by one mapping that cannot leave the copy (names.go), no
// host is called that was not allowed, and a Source that suddenly lists next to
// nothing does not empty the copy.
package destination
