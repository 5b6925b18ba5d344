package publisher

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Notification is what is posted to a hub: the bytes, and what goes with them.
type Notification struct {
	Topic string
	Body  []byte
	// Location is the URL of an immutable copy below the topic, sent as
	// Content-Location; empty: there is none.
	Location string
	// CapabilityList is sent as Link rel="resourcesync"; empty: not.
	CapabilityList string
}

// Receipt is a hub's 200.
type Receipt struct {
	ID string // empty from hubs that don't say
	// Duplicate says that the hub had these very bytes before.
	Duplicate bool
}

// RefusedError is an answer that is not 2xx.
type RefusedError struct {
	Hub    string
	Status int
	// Type is the last part of the problem's type, such as "gap"; empty where the
	// hub does not say.
	Type string
	// Detail is what the hub says, and what to do.
	Detail string
	// ExpectedFrom is where the hub wants the next interval to start; zero where
	// it does not say.
	ExpectedFrom time.Time
	// RetryAfter is how long the hub wants to be left alone; zero where it does
	// not say.
	RetryAfter time.Duration
}

// Error says who refused it and why.
func (e *RefusedError) Error() string { return e.Detail }

// Post posts a notification once (SRC-07), without any outbox. An error is a
// *RefusedError, or that of the network. A nil client is one with sensible
// limits; redirects are never followed.
func Post(ctx context.Context, client *http.Client, h Hub, n Notification) (Receipt, error) {
	return Receipt{}, errors.ErrUnsupported
}

// withoutRedirects returns a client that follows none: the specification calls a
// 3xx a failure (SRC-08).
func withoutRedirects(c *http.Client) *http.Client {
	var own http.Client
	if c != nil {
		own = *c
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
