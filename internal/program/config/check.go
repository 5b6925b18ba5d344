package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// finish reads the files that settings name and judges the settings together.
func (c *Config) finish(o Origins) error {
	if c.MaxPending > 0 {
		c.MaxPendingPerHost = min(pendingPerHost, c.MaxPending)
	}
	var errs []error
	if err := c.readPublishers(); err != nil {
		errs = append(errs, err)
	}
	if c.AdminTokenFile != "" {
		var err error
		if c.AdminToken, c.AdminTokenExposed, err = ReadAdminToken(c.AdminTokenFile); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Where("admin-token-file"), err))
		}
	}
	if err := c.finishRedis(o); err != nil {
		errs = append(errs, err)
	}
	if err := c.readCAs(); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", o.Where("ca-file"), err))
	}
	return errors.Join(append(errs, c.check(o)...)...)
}

// check judges the settings together. Each message says what to change.
func (c *Config) check(o Origins) []error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	ordered := func(ok bool, less, more string) {
		need(ok, "%s is more than %s: %s, and %s", less, more, o.Says(less), o.Says(more))
	}
	ordered(c.LeaseMin <= c.LeaseDefault, "lease-min", "lease-default")
	ordered(c.LeaseDefault <= c.LeaseMax, "lease-default", "lease-max")
	ordered(c.RetryFirst <= c.RetryMax, "retry-first", "retry-max")
	ordered(c.MaxBody <= c.MaxInflightBytes, "max-body", "max-inflight-bytes")
	need(c.PublishBytes.Count == 0 || int64(c.PublishBytes.Count) >= c.MaxBody,
		"publish-rate lets less through at once than the longest notification has: %s, and %s", o.Says("publish-rate"), o.Says("max-body"))
	need(len(c.PublishAuth) > 0, "%s: it names no way to publish; write one or more of content, token, open", o.Where("publish-auth"))
	need(c.AdminTokenFile != "" || isLoopback(c.AdminListen),
		"%s: %s can be reached from elsewhere, so the operator's listener needs --admin-token-file; or keep it on this machine with --admin-listen 127.0.0.1:8081",
		o.Where("admin-listen"), c.AdminListen)
	need(!c.Pprof || c.AdminTokenFile != "",
		"%s: profiles show the memory of the process, so they need a token; name its file with --admin-token-file", o.Where("pprof"))
	need((c.TLSCert == "") == (c.TLSKey == ""), "%s: tls-cert and tls-key go together; name both files, or neither", o.Where(either(c.TLSCert != "", "tls-cert", "tls-key")))
	need((c.AdminTLSCert == "") == (c.AdminTLSKey == ""), "%s: admin-tls-cert and admin-tls-key go together; name both files, or neither", o.Where(either(c.AdminTLSCert != "", "admin-tls-cert", "admin-tls-key")))
	c.checkRedis(o, need)
	need(c.Listen != c.AdminListen || portOf(c.Listen) == "0",
		"listen and admin-listen are both %s; give one of them another port", c.Listen)
	return errs
}

// Warnings returns what an operator should know about settings that are right
// in themselves, a sentence each.
func (c *Config) Warnings() []string {
	var all []string
	warn := func(when bool, text string) {
		if when {
			all = append(all, text)
		}
	}
	warn(c.Dev, "--dev: anyone may publish, requests may go to private addresses, and nothing is limited; not for a hub that others can reach")
	warn(!c.Dev && slices.Contains(c.PublishAuth, AuthOpen), "publish-auth includes open: anyone may publish")
	warn(slices.Equal(c.PublishAuth, []string{AuthToken}) && len(c.Publishers) == 0,
		"publish-auth is only token and there are no publishers: nobody can publish until "+c.PublishersFile+" names one")
	warn(!c.Dev && c.VerifyBudget == 0, "verify-budget is 0: strangers can make the hub send any host as many requests as they like; leave it at the default")
	warn(slices.ContainsFunc(c.TrustedProxy, isEverything), "trusted-proxy includes every address (0.0.0.0/0 or ::/0): anyone can forge X-Forwarded-For and escape the limits of a requester; name only the proxies")
	warn(slices.ContainsFunc(c.AllowCIDR, isEverything), "allow-cidr includes every address (0.0.0.0/0 or ::/0): strangers can make the hub call this machine and all networks around it; name the ranges that callbacks and topics are in")
	warn(c.AdminTokenExposed, "everyone on this machine may read or change the operator's token; prevent that with: chmod o= "+c.AdminTokenFile)
	warn(c.PublicURL == "" && !isLoopback(c.Listen), "public-url is not set: the hub calls itself http://localhost, which works only on this machine")
	warn(c.TLSCert != "" && strings.HasPrefix(c.PublicURL, "http:"), "public-url begins with http: and the listener serves only https: nobody can reach the hub at its own URL")
	warn(c.AcceptEmptyStore, "accept-empty-store: an emptied Redis is not noticed at the start; leave it out at the next start")
	warn(c.RetentionBytes < c.MaxBody, "retention-bytes is less than max-body: a large notification may be deleted before it was delivered; subscriptions then record a gap")
	return all
}

// isEverything reports whether a range has all addresses of IPv4 or of IPv6.
func isEverything(p netip.Prefix) bool { return p.Bits() == 0 }

// readCAs fills in c.RootCAs.
func (c *Config) readCAs() error {
	if c.CAFile == "" {
		return nil
	}
	data, err := readSmall(c.CAFile)
	if err != nil {
		return err
	}
	pool, err := x509.SystemCertPool()
	if err != nil { // there is none on this system
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(data) {
		return fmt.Errorf("%s has no certificate in PEM form (-----BEGIN CERTIFICATE-----)", c.CAFile)
	}
	c.RootCAs = pool
	return nil
}

// isLoopback reports whether only this machine reaches a listener on hostport.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func portOf(hostport string) string {
	_, port, _ := net.SplitHostPort(hostport) // checked when it was parsed
	return port
}
