// Package source makes a ResourceSync Source from a folder. It watches the folder, keeps an
// index of the resources in it and a log of their changes, and builds and serves every document
// of the framework from these two.
//
// A Folder scans and watches, and writes to an Index. What a catalogue or an application gives is
// written with Index.Apply. The documents are built from Snapshots of
// that index, and never from the names in the folder. Bytes are read through Folder.Open, which
// never leaves the folder. Package publisher sends the changes to hubs.
//
// The package imports packages publisher, resourcesync and websub, internal/base/boltfile and
// fsnotify.
package source
