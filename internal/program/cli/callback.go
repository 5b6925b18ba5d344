package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/websub"
)

const (
	maxDelivery = 64 << 20 // more than the largest notification that a hub accepts by default
	maxExcerpt  = 1 << 10
)

// Callback is `rshub callback`.
func Callback() *cobra.Command {
	var listen string
	c := callback{}
	cmd := &cobra.Command{
		Use:   "callback",
		Short: "Run a callback that shows what it receives, for trying out a hub",
		Long: `Listens as a callback, for trying out a hub. It confirms every verification of intent,
and prints verifications and deliveries in a readable form. It stores nothing, and
confirms requests of anybody; a real subscriber confirms only what it asked for.`,
		Example: `  rshub callback --secret s3cret
  rshub callback --listen 127.0.0.1:8091 --status 500    a subscriber that fails`,
		Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.status > 599 {
				return Fail(ExitUsage, "--status %d is not a status that ends an exchange; give one from 200 to 599", c.status)
			}
			c.out = cmd.OutOrStdout()
			ctx, cancel := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer cancel()
			return c.serve(ctx, listen, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8099", "`ADDR` to listen on")
	cmd.Flags().StringVar(&c.secret, "secret", "", "check each X-Hub-Signature with the `SECRET` that was given as hub.secret")
	c.status = http.StatusNoContent
	cmd.Flags().Var(AtLeast(&c.status, 200), "status", "HTTP `STATUS` to answer deliveries with, such as 500 to see retries")
	return cmd
}

// callback answers verifications and prints deliveries, one at a time.
type callback struct {
	secret string
	status int

	mu  sync.Mutex
	out io.Writer
}

// serve listens until ctx ends.
func (c *callback) serve(ctx context.Context, addr string, stderr io.Writer) error {
	l, err := Listen(ctx, "--listen", addr)
	if err != nil {
		return err
	}
	say(stderr, "The callback is http://%s/ (any path). Ctrl-C ends it.\n", l.Addr())
	s := newServer("callback", nil)
	s.Listener = l
	s.Serve(ctx, c)
	defer s.Stop(ctx, time.Second) // nothing is printed after that
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.Failed:
		return err
	}
}

// ServeHTTP answers a verification, a denial or a delivery.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		c.confirm(w, r)
	case http.MethodPost:
		c.receive(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "A callback accepts GET and POST.", http.StatusMethodNotAllowed)
	}
}

// confirm echoes the challenge (WebSub 5.3, HUB-25).
func (c *callback) confirm(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	mode, topic := q.Get(websub.ParamMode), q.Get(websub.ParamTopic)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch challenge := q.Get(websub.ParamChallenge); {
	case mode == string(websub.ModeDenied):
		c.print(fmt.Sprintf("%s denied: %s, because: %s", timeOfDay(), topic, cmp.Or(q.Get(websub.ParamReason), "(no reason given)")))
	case mode != "" && challenge != "":
		lease := ""
		if s := q.Get(websub.ParamLeaseSeconds); s != "" {
			lease = " for " + s + " s"
		}
		c.print(fmt.Sprintf("%s confirmed: %s %s%s at %s", timeOfDay(), mode, topic, lease, r.URL.Path))
		_, _ = io.WriteString(w, challenge) //nolint:gosec // plain text, marked as such
	default:
		http.Error(w, "This is a WebSub callback: hubs verify it with GET and deliver with POST.", http.StatusNotFound)
	}
}

// receive prints a delivery.
func (c *callback) receive(w http.ResponseWriter, r *http.Request) {
	body, err := egress.ReadBody(r.Body, maxDelivery)
	if err != nil {
		c.print(fmt.Sprintf("%s a delivery to %s broke off: %v", timeOfDay(), r.URL.Path, err))
		http.Error(w, "The body could not be read.", http.StatusBadRequest)
		return
	}
	lines := []string{fmt.Sprintf("%s delivered: POST %s, %s, answered %d", timeOfDay(), r.URL.RequestURI(), quantity.BytesText(int64(len(body))), c.status)}
	for _, name := range []string{"Content-Type", "Link", "Webhook-Id", "RSHub-Attempt", websub.HeaderSignature} {
		for _, value := range r.Header.Values(name) {
			if name == websub.HeaderSignature {
				value += c.verify(value, body)
			}
			lines = append(lines, "  "+name+": "+value)
		}
	}
	if c.secret != "" && r.Header.Get(websub.HeaderSignature) == "" {
		lines = append(lines, "  (not signed, though there is a --secret)")
	}
	c.print(append(lines, beginning(body)...)...)
	w.WriteHeader(c.status)
}

// verify says whether a signature is right.
func (c *callback) verify(header string, body []byte) string {
	if c.secret == "" {
		return " (not checked: no --secret)"
	}
	if err := websub.VerifySignature(header, c.secret, body); err != nil {
		return " (WRONG: " + err.Error() + ")"
	}
	return " (right)"
}

// beginning returns the first lines of a body, indented.
func beginning(body []byte) []string {
	shown := body[:min(len(body), maxExcerpt)]
	lines := strings.Split(strings.ToValidUTF8(strings.TrimRight(string(shown), "\n"), "?"), "\n")
	for i := range lines {
		lines[i] = "  | " + strings.TrimRight(lines[i], "\r")
	}
	if more := len(body) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("  ... %s more", quantity.BytesText(int64(more))))
	}
	return lines
}

// print writes the lines of one request together, even if requests overlap. Text from a
// request cannot begin a line of its own.
func (c *callback) print(lines ...string) {
	for i := range lines {
		lines[i] = Line(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	say(c.out, "%s\n", strings.Join(lines, "\n"))
}

func timeOfDay() string { return time.Now().Format(time.TimeOnly) }
