package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/egress"
)

// healthTime is how long health waits for an answer. It is longer than the listener takes for
// its checks.
const healthTime = 8 * time.Second

// maxHealth bounds the answer, in bytes.
const maxHealth = 64 << 10

// HealthOf returns the command health of a program. The operator's listener is at the address
// that where returns; an empty one: there is none. Secure says that it speaks https.
func HealthOf(program string, where func(cmd *cobra.Command) (addr string, secure bool, err error)) *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Ask the " + program + " on this machine whether it is ready", Args: cobra.NoArgs,
		Long: `Asks the operator's listener on this machine (/readyz), for probes of containers and
for scripts. Exit code 0: it is ready. Exit code 1: it is not, as the output says, or
nothing answers. The address is that of --admin-listen, and it needs no token.`,
		Example: "  " + program + " health --admin-listen 127.0.0.1:9090 && echo ready",
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, secure, err := where(cmd)
			if err != nil {
				return err
			}
			if addr == "" {
				return Fail(ExitUsage, "name the address of the operator's listener with --admin-listen, as for the program itself")
			}
			at, err := probeURL(addr, secure)
			if err != nil {
				return Fail(ExitUsage, "--admin-listen: %w", err)
			}
			return probe(cmd, at)
		},
	}
}

// probeURL is the URL for a probe of a listener. One that listens everywhere is asked on the
// loopback address.
func probeURL(addr string, secure bool) (*url.URL, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	u := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/readyz"}
	if secure {
		u.Scheme = "https"
	}
	return u, nil
}

// probe asks for the readiness once.
func probe(cmd *cobra.Command, at *url.URL) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), healthTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{
		// The certificate is for the name that operators use, and this asks about the same machine.
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, //nolint:gosec // no secret is sent, and no answer trusted further
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return Fail(ExitFailure, "not ready: nothing answers at %s: %w", at.Host, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	text, err := egress.ReadBody(resp.Body, maxHealth)
	if err != nil {
		return Fail(ExitFailure, "not ready: %s: %w", at.Host, err)
	}
	if resp.StatusCode == http.StatusOK {
		say(cmd.OutOrStdout(), "ready\n")
		return nil
	}
	why := strings.TrimSuffix(strings.TrimSpace(string(text)), "\nnot ready")
	if resp.StatusCode != http.StatusServiceUnavailable {
		why = "it answers " + resp.Status
	}
	return Fail(ExitFailure, "not ready: %s", why)
}

// Health is the command health of rspub and rssub.
func Health(program string) *cobra.Command {
	var addr, cert string
	cmd := HealthOf(program, func(*cobra.Command) (string, bool, error) { return addr, cert != "", nil })
	cmd.Flags().StringVar(&addr, "admin-listen", "", "`ADDRESS` of the operator's listener, as the program has it")
	cmd.Flags().StringVar(&cert, "admin-tls-cert", "", "certificate `FILE` of that listener; with it, the listener speaks https")
	return cmd
}
