// Package ingress is how requests come in to the hub, to a Source and to a callback
// alike: the limits of time and size that hold for every connection, how many there may
// be in all and of one network, the name of a request and the answer to one whose
// handler broke off, and the certificate of a listener, read again when its files change.
//
// It knows nothing of what is asked. Handlers bound the bodies that they read, and find
// the name of a request in the header of its answer. It logs through log/slog, with the
// events that docs/operations.md lists.
package ingress
