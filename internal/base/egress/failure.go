package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// Failure is what became of a request, as far as the caller's next step depends
// on it.
type Failure int

// The failures.
const (
	// FailureNone: there is an answer.
	FailureNone Failure = iota
	// FailureRefused: the address is one that is not called (*RefusedError).
	// Trying again does not help until DNS or the hub's flags change.
	FailureRefused
	// FailureTimeout: the exchange took too long.
	FailureTimeout
	// FailureConnect: no connection could be made. The name does not resolve,
	// nothing listens, connecting took too long, or the TLS handshake failed.
	FailureConnect
	// FailureOther: the exchange broke off, or what came is not HTTP, or the
	// caller cancelled it.
	FailureOther
	// FailureProxy: the proxy can't be reached, or wants another password; nothing
	// was sent. It says nothing of the host that was to be called, which can't
	// bring it about.
	FailureProxy
	// FailureBudget: nothing was sent because too many unconfirmed requests
	// went to the address; *BudgetError says how long to wait.
	FailureBudget
)

// Classify tells what kind of failure an error of Client.Do, or of reading an
// answer's body, is. A cancel cause of the caller's own counts as a timeout if
// it has a method Timeout that returns true.
func Classify(err error) Failure {
	if err == nil {
		return FailureNone
	}
	var (
		proxy   *proxyError
		connect *connectError
		refused *RefusedError
		spent   *BudgetError
		timeout net.Error
	)
	switch {
	case errors.As(err, &proxy):
		return FailureProxy
	case errors.As(err, &connect):
		return FailureConnect
	case errors.As(err, &refused):
		return FailureRefused
	case errors.As(err, &spent):
		return FailureBudget
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return FailureTimeout
	default:
		return FailureOther
	}
}

// RefusedError says that an address is not called, and which flag would allow it
// if one does.
type RefusedError struct {
	Addr   string // the address, or the host as it was written
	Reason string // goes on after Addr to a whole sentence
	Kind   Refusal
}

func (e *RefusedError) Error() string { return e.Addr + " " + e.Reason }

// BudgetError says that too many unconfirmed requests went to one address.
type BudgetError struct {
	Target string
	Wait   time.Duration // after this long there is a place again
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("too many unconfirmed requests to %s: wait %s (--verify-budget)", e.Target, e.Wait.Round(time.Second))
}

// CertificateError says that a server's certificate is not accepted. Classify
// takes it for a FailureConnect.
type CertificateError struct{ Err error }

func (e *CertificateError) Error() string {
	return e.Err.Error() + ": the certificate is the server's to mend, unless its authority belongs into --ca-file"
}

// Unwrap returns what crypto/x509 has against the certificate.
func (e *CertificateError) Unwrap() error { return e.Err }

// connectError marks an error as one of making the connection.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// WithoutURL takes the URL out of an error about one, since a callback's URL may
// be a secret of its owner.
func WithoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
