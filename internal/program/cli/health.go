package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/egress"
)

// healthTimeout is how long Health waits for an answer.
const healthTimeout = 10 * time.Second

// maxHealth bounds the answer that Health reads, in bytes.
const maxHealth = 64 << 10

// Health is `rshub health`, `rspub health` and `rssub health`. Admin reads the settings: it
// returns the address of the operator's listener, as --admin-listen has it, and whether the
// listener speaks https. Whatever goes wrong, the exit code is 1, as probes want it.
func Health(program string, admin func(cmd *cobra.Command) (addr string, secure bool, err error)) *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Ask the " + program + " on this machine whether it is ready", Args: NoArguments,
		Long: `Asks /readyz of the operator's listener on this machine whether ` + program + ` is ready.
It prints one line. It exits with 0 if the program is ready, and with 1 if it is not
ready or does not answer. It needs no token. Use it as a probe of a container.

Give it the settings that ` + program + ` runs with: the same file, environment or flags. It
needs only --admin-listen, and --admin-tls-cert if that is set.`,
		Example: "  " + program + " health --admin-listen 127.0.0.1:9090",
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, secure, err := admin(cmd)
			if err == nil {
				err = healthy(cmd.Context(), program, addr, secure)
			}
			if err != nil {
				return Fail(ExitFailure, "%w", err)
			}
			say(cmd.OutOrStdout(), "%s is ready.\n", program)
			return nil
		},
	}
}

// healthy returns why a program is not ready.
func healthy(ctx context.Context, program, addr string, secure bool) error {
	_, port, err := net.SplitHostPort(addr)
	switch {
	case addr == "":
		return fmt.Errorf("%s has no operator's listener; set --admin-listen", program)
	case err != nil:
		return fmt.Errorf("--admin-listen %q is not an address; write host:port, such as 127.0.0.1:9090", addr)
	case port == "0":
		return fmt.Errorf("--admin-listen %s has a port that the system chooses; set another one", addr)
	}
	where := url.URL{Scheme: "http", Host: "localhost:" + port, Path: "/readyz"}
	if secure {
		where.Scheme = "https"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{
		Transport: &http.Transport{
			// The name localhost is for the Host header: the listener may be at one address only.
			// No host, 0.0.0.0 and [::] are this machine.
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			},
			DisableKeepAlives: true,
			// The certificate names the host that others use. The request has no secret, and
			// stays on this machine.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}).Do(req)
	if err != nil {
		var broken *url.Error
		if errors.As(err, &broken) {
			err = broken.Err
		}
		return fmt.Errorf("%s does not answer at %s: %w", program, addr, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := egress.ReadBody(resp.Body, maxHealth)
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer of %s: %w", addr, err)
	case resp.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("%s is not ready: %s", program, strings.Join(failing(string(body)), "; "))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("what answers at %s is not the operator's listener of %s: %s", addr, program, resp.Status)
	}
	return nil
}

// failing returns the checks that an answer of /readyz says fail.
func failing(body string) []string {
	var out []string
	for line := range strings.Lines(body) {
		if check, ok := strings.CutPrefix(strings.TrimSpace(line), "[-] "); ok {
			out = append(out, check)
		}
	}
	return out
}
