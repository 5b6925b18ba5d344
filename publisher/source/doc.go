// Package source makes a ResourceSync Source of a folder: it watches the folder,
// keeps an index of the resources in it and a log of their changes, and builds
// and serves every document of the framework from the two.
//
// A Folder scans and watches, and writes to an Index. Whoever builds documents
// reads Snapshots of that index, and never the folder's names; bytes are opened
// through Folder.Open, which never leaves the folder. The package imports
// packages publisher, resourcesync and websub, internal/base/boltfile and fsnotify. Changes go on
// to package publisher, which sends them to hubs.
package source
