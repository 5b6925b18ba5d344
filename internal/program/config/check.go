package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/yamlfile"
)

// readFiles reads the files that settings name, and fills in what depends on other settings.
func (c *Config) readFiles(o Origins) error {
	if c.MaxPending > 0 {
		c.MaxPendingPerHost = min(pendingPerHost, c.MaxPending)
	}
	return errors.Join(
		c.readPublishers(),
		o.at("admin-token-file", readToken(c.AdminTokenFile, &c.AdminToken, &c.AdminTokenExposed)),
		o.at("admin-readonly-token-file", readToken(c.ReaderTokenFile, &c.ReaderToken, &c.ReaderTokenExposed)),
		c.finishRedis(o),
		o.at("ca-file", c.readCAs()),
	)
}

// at puts the place of a setting before an error; nil stays nil.
func (o Origins) at(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", o.Where(name), err)
}

// readToken reads a token of the operator's listener, if its file is named.
func readToken(file string, token *Secret, exposed *bool) (err error) {
	if file != "" {
		*token, *exposed, err = ReadAdminToken(file)
	}
	return err
}

// notForPeople are headers that clients send by themselves.
var notForPeople = []string{"Authorization", "Cookie", "Host", "Origin", "User-Agent", "X-Forwarded-For"}

// check checks the settings against each other. Each message says what to change.
func (c *Config) check(o Origins) error {
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
		"publish-rate allows fewer bytes at once than the longest notification has: %s, and %s", o.Says("publish-rate"), o.Says("max-body"))
	need(len(c.PublishAuth) > 0, "%s: it names no way to publish; write one or more of content, token, open", o.Where("publish-auth"))
	if err := CheckAdminListen(c.AdminListen, c.AdminTokenFile != ""); err != nil {
		need(false, "%s: %w", o.Where("admin-listen"), err)
	}
	need(c.ReaderTokenFile == "" || c.AdminTokenFile != "",
		"%s: without --admin-token-file everybody on this machine may change everything, so a token that may only look is of no use; name that file as well", o.Where("admin-readonly-token-file"))
	need(c.ReaderToken == "" || c.ReaderToken != c.AdminToken,
		"%s: the token in it is that of --admin-token-file, which may change everything; make another one", o.Where("admin-readonly-token-file"))
	need(c.AdminAuthHeader == "" || len(c.AdminAuthProxy) > 0,
		"%s: anyone could send this header; name the proxies that may with --admin-auth-proxy", o.Where("admin-auth-header"))
	need(c.AdminAuthHeader == "" || c.AdminTokenFile != "",
		"%s: whoever does not come through the proxy needs a token, such as the rshub command; name its file with --admin-token-file", o.Where("admin-auth-header"))
	for _, name := range []string{"admin-auth-role-header", "admin-auth-proxy"} {
		need(c.AdminAuthHeader != "" || o.Get(name).same, "%s: it has no effect without --admin-auth-header", o.Where(name))
	}
	need(!slices.ContainsFunc(c.AdminAuthProxy, isEverything), "%s: a range with every address lets anyone forge the header; name only the proxies", o.Where("admin-auth-proxy"))
	need(!slices.Contains(notForPeople, c.AdminAuthHeader), "%s: clients send this header for another purpose; choose one that only the proxy sets, such as X-Forwarded-User", o.Where("admin-auth-header"))
	need(!c.Pprof || c.AdminTokenFile != "",
		"%s: profiles show the memory of the process, so they need a token; name its file with --admin-token-file", o.Where("pprof"))
	pair := func(cert, key, prefix string) {
		given := prefix + "tls-cert"
		if cert == "" {
			given = prefix + "tls-key"
		}
		need((cert == "") == (key == ""), "%s: %stls-cert and %stls-key go together; name both files, or neither", o.Where(given), prefix, prefix)
	}
	pair(c.TLSCert, c.TLSKey, "")
	pair(c.AdminTLSCert, c.AdminTLSKey, "admin-")
	c.checkRedis(o, need)
	need(!SameAddress(c.Listen, c.AdminListen), "listen and admin-listen need different ports: %s, and %s", o.Says("listen"), o.Says("admin-listen"))
	return errors.Join(errs...)
}

// Complete returns an error where something is missing without which a hub that others can reach
// is of no use. Serve only warns of it, for trying things out.
func (c *Config) Complete() error {
	if c.PublicURL == "" && !c.Dev && !IsLoopback(c.Listen) {
		return errors.New("public-url is missing: write the URL at which publishers and subscribers reach this hub, such as public-url: https://hub.example.org/")
	}
	return nil
}

// Warnings returns a sentence for each valid setting that an operator should think about.
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
	warn(c.ReaderTokenExposed, "everyone on this machine may read or change the read-only token; prevent that with: chmod o= "+c.ReaderTokenFile)
	warn(c.PublicURL == "" && !IsLoopback(c.Listen), "public-url is not set: the hub calls itself http://localhost, which works only on this machine")
	warn(c.TLSCert != "" && strings.HasPrefix(c.PublicURL, "http:"), "public-url begins with http: and the listener serves only https: nobody can reach the hub at its own URL")
	warn(c.AcceptEmptyStore, "accept-empty-store: an emptied Redis is not noticed at the start; leave it out at the next start")
	warn(c.RetentionBytes < c.MaxBody, "retention-bytes is less than max-body: a large notification may be deleted before it was delivered; subscriptions then record a gap")
	return all
}

// isEverything reports whether a range contains every IPv4 or every IPv6 address.
func isEverything(p netip.Prefix) bool { return p.Bits() == 0 }

// readCAs fills in c.RootCAs.
func (c *Config) readCAs() error {
	if c.CAFile == "" {
		return nil
	}
	data, err := yamlfile.Read(c.CAFile)
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

// CheckAdminListen returns an error if others can reach the operator's listener at an address
// and it has no token.
func CheckAdminListen(addr string, token bool) error {
	if token || IsLoopback(addr) {
		return nil
	}
	return fmt.Errorf("%s can be reached from elsewhere, so it needs a token: name its file with --admin-token-file, or keep the listener on this machine with --admin-listen 127.0.0.1:%s", addr, portOf(addr))
}

// IsLoopback reports whether a listener on hostport can be reached only from this machine.
func IsLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// SameAddress reports whether two listeners cannot be open at once: their ports are the same, and their hosts are,
// or one is every address of this machine.
func SameAddress(a, b string) bool {
	hosts := [2]string{}
	for i, hostport := range []string{a, b} {
		host, _, _ := net.SplitHostPort(hostport) // checked when it was parsed
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			host = ""
		} else if host == "localhost" {
			host = "127.0.0.1"
		}
		hosts[i] = host
	}
	port := portOf(a)
	return port == portOf(b) && port != "" && port != "0" && (hosts[0] == hosts[1] || hosts[0] == "" || hosts[1] == "")
}

func portOf(hostport string) string {
	_, port, _ := net.SplitHostPort(hostport) // checked when it was parsed
	return port
}
