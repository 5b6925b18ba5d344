// Package examine looks at a ResourceSync Source from outside, ours or anybody's,
// and tells what is right and what is wrong with it: whether it is found, whether
// its documents are valid and agree, whether its resources are what its lists say,
// whether its topics can be subscribed to and its hubs reached.
//
// Examine finds the Source Description (discover.go), goes through all that it
// lists (documents.go), fetches a sample of the resources (resources.go) and a
// package of each dump (dumps.go), and asks topics and hubs (channels.go). What it
// finds it hands to the caller, finding by finding.
//
// It calls hosts that documents name, through the client that it is given, and
// changes nothing anywhere. It reads documents with resourcesync and Link headers
// with websub; cmd/rspub prints what it says.
package examine
