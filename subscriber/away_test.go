package subscriber

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
)

type permanentError struct{ error }

func (permanentError) Permanent() bool { return true }

// Waiting helps where a host does not answer, or says that it is not ready, and nowhere
// else.
func TestAway(t *testing.T) {
	status := func(code int) error { return &StatusError{URL: "https://source.example/", Status: code} }
	no := func(err error) error { return &web.UnansweredError{Err: err} }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":                   {nil, false},
		"not ready":              {status(503), true},
		"gateway":                {fmt.Errorf("reading: %w", status(502)), true},
		"too many":               {status(429), true},
		"not implemented":        {status(501), false},
		"unauthorised":           {status(401), false},
		"not found":              {status(404), false},
		"refused connection":     {no(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		"no such name":           {no(&net.DNSError{Err: "no such host", IsNotFound: true}), true},
		"broken off":             {no(io.ErrUnexpectedEOF), true},
		"out of time":            {fmt.Errorf("asking: %w", context.DeadlineExceeded), true},
		"address not allowed":    {no(&egress.RefusedError{Addr: "10.0.0.1", Reason: "is private"}), false},
		"certificate":            {no(&egress.CertificateError{Err: errors.New("expired")}), false},
		"no TLS":                 {no(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), false},
		"http at an https URL":   {no(http.ErrSchemeMismatch), false},
		"SSH":                    {no(errors.New(`malformed HTTP response "SSH-2.0-OpenSSH"`)), false},
		"host not allowed":       {no(permanentError{errors.New("another host")}), false},
		"no document":            {fmt.Errorf("reading: %w", &resourcesync.Error{}), false},
		"cut off document":       {fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), true},
		"reset while it came":    {fmt.Errorf("reading: %w", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), true},
		"one of two":             {fmt.Errorf("no Source at %w, nor at %w", status(404), status(503)), true},
		"none of two":            {errors.Join(status(404), status(401)), false},
		"no hub":                 {fmt.Errorf("topic: %w", ErrNoHub), false},
		"redirect to plain http": {errors.New("it leads from https to http"), false},
	} {
		if got := Away(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// If a host can't be asked at all, the reason is said once.
func TestNoSourceAtAHostThatIsNotAsked(t *testing.T) {
	refused := &egress.RefusedError{Addr: "10.0.0.1", Reason: "is private"}
	client := web.DoerFunc(func(*http.Request) (*http.Response, error) { return nil, refused })
	_, err := DiscoverSource(t.Context(), client, "https://source.example/")
	if want := "no Source found: asking https://source.example/: 10.0.0.1 is private"; err == nil || err.Error() != want || !errors.Is(err, refused) {
		t.Errorf("%v, want %s", err, want)
	}
}

// answers is a host that answers each path with a status and asks to come again after 100 s; 404 if it has none.
type answers map[string]int

func (a answers) Do(r *http.Request) (*http.Response, error) {
	status := cmp.Or(a[r.URL.Path], http.StatusNotFound)
	return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"100"}}, Body: http.NoBody, Request: r}, nil
}

// Of the answers of a host without a Source, the one that says why counts: many hosts have nothing at their top.
func TestAnswerThatCounts(t *testing.T) {
	for _, c := range []struct{ top, wellKnown, want int }{
		{404, 503, 503}, {404, 401, 401}, {404, 404, 404}, {410, 404, 410}, {503, 404, 503}, {401, 404, 401}, {503, 401, 503}, {401, 503, 503},
	} {
		_, err := DiscoverSource(t.Context(), answers{"/": c.top, WellKnown: c.wellKnown}, "https://source.example/")
		says := fmt.Sprintf("no Source found at https://source.example/ (https://source.example/ answered %d %s), nor at https://source.example%s (https://source.example%[3]s answered %[4]d %s)",
			c.top, http.StatusText(c.top), WellKnown, c.wellKnown, http.StatusText(c.wellKnown))
		var status *StatusError
		if !errors.As(err, &status) || status.Status != c.want || status.RetryAfter != 100*time.Second || err.Error() != says {
			t.Errorf("%+v: %v, %v", c, status, err)
		}
	}
}
