// Package destination keeps a copy of a ResourceSync Source, and can prove that the copy
// is in sync.
//
//	Resource List or Dump --> baseline --+
//	                                     +--> fetch, verify, rename --> the copy
//	subscriber: pushed or pulled changes-+                                |
//	                                                    audit <-----------+
//
// The baseline uses the cheapest document that the Source offers. After it, package subscriber
// passes on the changes, in order and each until it is committed, whether a hub pushed them or
// they come from Change Lists. Files are written to a separate folder, compared with the length
// and hashes that the Source states, and renamed. So the copy never has an incomplete file.
// Resources that cannot be fetched are recorded, counted and tried again. They delay nothing
// else.
//
// The package does not trust a Source with the file system or with other hosts. Addresses become
// paths by one mapping that cannot leave the copy (names.go). Only allowed hosts are called. A
// Source that suddenly lists almost nothing does not empty the copy.
package destination
