// Package source makes a ResourceSync Source from a folder or a catalogue. It watches the folder, keeps an
// index of the resources in it and a log of their changes, and builds and serves every document
// of the framework from these two.
//
// A Folder scans and watches, and writes to an Index. A Catalogue does the same with what a repository
// says that it has, and Index.Apply with what an application says has changed. The documents are built
// from Snapshots of that index, and never from the names in the folder. Bytes of files are read through
// os.Root, which never leaves the folder. Package publisher sends the changes to hubs.
//
// The package imports packages publisher, publisher/catalogue, resourcesync and websub,
// internal/base/boltfile, internal/base/web and fsnotify.
package source
