package egress

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
)

// Asker says on whose behalf the hub calls a host that somebody named, so that a
// Budget can count by it. The zero Asker is an unknown stranger.
type Asker struct {
	// Requester is the network that asked for it (RequesterID); 0: it is not known.
	Requester uint64
	// Reserve names what the request is for, if that is established or has a credential.
	// The request may then use the reserve of its target, one place at a time under one
	// name. Empty: the request is a stranger's.
	Reserve string
	// Established says that what Reserve names has its place in the store: a topic
	// with a head, or a subscription that is in force and renewed by its own
	// subscriber.
	Established bool
}

// RequesterID is the number under which a network, an IPv4 address or an IPv6 /64 in text, is
// counted and stored as a requester. It distinguishes networks and does not show their
// address. It is 0 for an empty text: the requester is not known.
func RequesterID(network string) uint64 {
	if network == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(network))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

type askerKey struct{}

// WithAsker returns a context whose requests are made on behalf of a.
func WithAsker(ctx context.Context, a Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, a)
}

// AskerOf returns the Asker of a context; the zero Asker if it has none.
func AskerOf(ctx context.Context) Asker {
	a, _ := ctx.Value(askerKey{}).(Asker)
	return a
}
