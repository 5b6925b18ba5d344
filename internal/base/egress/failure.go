package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/rshub/rshub/internal/base/post"
)

// Failure is why a request failed, as far as the caller's next step depends on it.
type Failure int

// The failures.
const (
	// FailureNone: there is a response.
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
	// FailureOwn: nothing was sent, and the called host can't cause this. The proxy cannot be
	// reached, or wants another password, or there may be no more open files.
	FailureOwn
	// FailureBudget: nothing was sent because too many unconfirmed requests
	// went to the address; *BudgetError says how long to wait.
	FailureBudget
)

// Classify returns the kind of failure of an error of Client.Do, or of reading the body of
// a response. A cancel cause of the caller counts as a timeout if it has a method Timeout
// that returns true.
func Classify(err error) Failure {
	if err == nil {
		return FailureNone
	}
	var (
		failed  *failedError
		refused *RefusedError
		spent   *BudgetError
		timeout interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &failed):
		return failed.failure
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

// CertificateError says that a server's certificate is not accepted. For Classify it is a
// FailureConnect.
type CertificateError struct{ Err error }

func (e *CertificateError) Error() string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	does := "the server needs another certificate, or trust its authority here (SSL_CERT_FILE; for a hub --ca-file)"
	switch {
	case errors.As(e.Err, &invalid) && invalid.Reason == x509.Expired:
		does = "the server needs a certificate that is valid now, or the clock here is wrong"
	case errors.As(e.Err, &name):
		does = "the server needs a certificate for this name, or call it by a name that its certificate has"
	}
	return e.Err.Error() + ": " + does
}

// Unwrap returns the error of crypto/x509.
func (e *CertificateError) Unwrap() error { return e.Err }

// failedError is an error of making the connection, or of the proxy.
type failedError struct {
	failure Failure
	error
}

func (e *failedError) Unwrap() error { return e.error }

// noConnection returns a FailureConnect. The arguments are those of fmt.Errorf.
func noConnection(format string, args ...any) error {
	return &failedError{FailureConnect, fmt.Errorf(format, args...)}
}

// outOfFiles reports whether an error of dialing says that this process, or the machine, may open no more
// files. A resolver gives only the text of its error.
func outOfFiles(err error) bool {
	var lookup *net.DNSError
	for _, limit := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, limit) || errors.As(err, &lookup) && strings.Contains(lookup.Err, limit.Error()) {
			return true
		}
	}
	return false
}

// noProxy returns a FailureOwn: the host that was to be called has no part in it, and
// cannot cause it.
func noProxy(doing string, err error) error {
	return &failedError{FailureOwn, fmt.Errorf("%s%w (--egress-proxy)", doing, err)}
}

// plainError is an error in words.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// noTLS explains the error of a handshake with a server that does not speak TLS, or closes the connection. Other errors
// stay as they are.
func noTLS(err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		return &plainError{"the server speaks plain HTTP at this port, and not TLS; write http in place of https, or the port of its https", err}
	case errors.As(err, &record) && strings.Contains(record.Msg, "does not look like"):
		return &plainError{"the server does not speak TLS at this port; is the port that of its https?", err}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return &plainError{"the server closed the connection; does it speak TLS at this port?", err}
	}
	return err
}

// Unanswered returns an error of Client.Do for a person: WithoutURL, and in words if the server closed the connection
// before it answered, which is io.EOF, or speaks another protocol.
func Unanswered(err error) error {
	const broken, malformed = "net/http: HTTP/1.x transport connection broken: ", "malformed HTTP response \""
	text, _ := strings.CutPrefix(err.Error(), broken)
	switch {
	case Classify(err) != FailureOther: // a proxy closed it, or the handshake of TLS broke off
	case errors.Is(err, io.EOF):
		return post.ErrClosed
	case strings.HasPrefix(text, malformed+`\x15\x03`): // an alert of TLS
		return &plainError{"the server speaks TLS at this port, and not plain HTTP; write https in place of http (" + text + ")", err}
	case strings.HasPrefix(text, malformed):
		return &plainError{"the server does not speak HTTP at this port (" + text + ")", err}
	}
	return WithoutURL(err)
}

// WithoutURL removes the URL from an error about one: the URL of a callback may be a secret
// of its owner.
func WithoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
