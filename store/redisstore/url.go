package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// target is what a Redis URL says.
type target struct {
	scheme             string
	addresses          []string
	cluster, sentinels bool
	master             string // its name at the Sentinels
	db                 int
	username, password string

	sentinelUsername, sentinelPassword string

	tls                       bool
	caFile, certFile, keyFile string
}

// schemes are the schemes of a Redis URL, with the meaning of each.
var schemes = map[string]target{
	"redis":           {},
	"rediss":          {tls: true},
	"redis+sentinel":  {sentinels: true},
	"rediss+sentinel": {sentinels: true, tls: true},
	"redis+cluster":   {cluster: true},
	"rediss+cluster":  {cluster: true, tls: true},
}

// forms ends the errors about a URL. No error shows any part of the URL, because each part of
// a wrong one may be a password.
const forms = "write it like redis://host:port/db, redis+sentinel://host:port,host:port/master-name or redis+cluster://host:port,host:port, with rediss instead of redis for TLS, and user:password@ before the first host; write a character of a password that is neither a letter nor a digit as %XX"

// urlError returns an error that says what is wrong in a Redis URL.
func urlError(what string) error {
	return fmt.Errorf("the Redis URL has %s: %s", what, forms)
}

// CheckURL returns why Open cannot use a Redis URL, or the files that it names; nil: it can. It connects to nothing.
// The error does not show the URL.
func CheckURL(raw string) error {
	t, err := parseURL(raw)
	if err != nil {
		return err
	}
	_, err = t.options(DefaultTimeout)
	return err
}

// parseURL reads a Redis URL:
//
//	redis://host[:port][/db]
//	redis+sentinel://host[:port],...[/master-name[/db]]
//	redis+cluster://host[:port],...
//
// and the same with rediss for TLS. USER:PASSWORD@ may stand before the first host, and
// USER may be empty. Query parameters are sentinel-username and
// sentinel-password, and with TLS ca-file, cert-file and key-file. Errors never
// show the URL.
func parseURL(raw string) (t target, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return t, urlError("no scheme")
	}
	if t, ok = schemes[scheme]; !ok {
		return t, urlError("an unknown scheme")
	}
	t.scheme = scheme
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(rest+query, "# \t\r\n") {
		return target{}, urlError("a character that has to be written as %XX")
	}
	if err := t.readAuthority(authority); err != nil {
		return target{}, err
	}
	switch {
	case t.cluster && path != "":
		return target{}, urlError("a path, and a Cluster has no numbered databases")
	case t.sentinels:
		var name string
		name, path, _ = strings.Cut(path, "/")
		if t.master, err = url.PathUnescape(name); err != nil || t.master == "" {
			return target{}, urlError("no name of a master after the Sentinels")
		}
	case !t.cluster && len(t.addresses) > 1:
		return target{}, urlError("several hosts, and its scheme does not say what kind they are")
	}
	if path != "" {
		if t.db, err = strconv.Atoi(path); err != nil || t.db < 0 || path != strconv.Itoa(t.db) {
			return target{}, urlError("a path that is not the number of a database")
		}
	}
	if err := t.readQuery(query); err != nil {
		return target{}, err
	}
	return t, nil
}

// readAuthority reads user, password and hosts.
func (t *target) readAuthority(authority string) error {
	hosts := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		hosts = authority[at+1:]
		user, password, _ := strings.Cut(authority[:at], ":")
		var err1, err2 error
		t.username, err1 = url.PathUnescape(user)
		t.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return urlError("a % in its user or password that is not followed by two hexadecimal digits")
		}
		if t.username != "" && t.password == "" {
			return urlError("a user without a password; a password alone is written as :password@")
		}
	}
	port := "6379"
	for host := range strings.SplitSeq(hosts, ",") {
		address, err := hostPort(host, port)
		if err != nil {
			return err
		}
		if !slices.Contains(t.addresses, address) {
			t.addresses = append(t.addresses, address)
		}
	}
	return nil
}

// hostPort reads one host and its port. Without a port it uses the given one.
func hostPort(s, port string) (string, error) {
	wrong := urlError("an invalid host, or a port that is not a number from 1 to 65535")
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if ip := net.ParseIP(host); !ok || ip == nil || ip.To4() != nil {
			return "", wrong
		}
	} else if host == "" || strings.ContainsAny(host, ":[]@%") {
		return "", wrong
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", wrong
	}
	return net.JoinHostPort(host, port), nil
}

// readQuery reads the parameters.
func (t *target) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return urlError("parameters that cannot be read")
	}
	parameters := make(map[string]*string)
	if t.sentinels {
		parameters["sentinel-username"], parameters["sentinel-password"] = &t.sentinelUsername, &t.sentinelPassword
	}
	if t.tls {
		parameters["ca-file"], parameters["cert-file"], parameters["key-file"] = &t.caFile, &t.certFile, &t.keyFile
	}
	for name, v := range values {
		to, ok := parameters[name]
		if !ok {
			return urlError("an unknown parameter: there are sentinel-username and sentinel-password for Sentinels, and ca-file, cert-file and key-file with TLS")
		}
		if len(v) != 1 || v[0] == "" {
			return urlError("a parameter that is empty or repeated")
		}
		*to = v[0]
	}
	if (t.certFile == "") != (t.keyFile == "") {
		return urlError("one of cert-file and key-file without the other")
	}
	return nil
}

// location returns a Redis URL without its user, password and parameters.
func (t target) location() string {
	u := url.URL{Scheme: t.scheme, Host: strings.Join(t.addresses, ",")}
	if t.sentinels {
		u = *u.JoinPath(t.master)
	}
	if t.db != 0 {
		u = *u.JoinPath(strconv.Itoa(t.db))
	}
	return u.String()
}

// options returns the options of a client whose commands take no longer than timeout. The
// client reads only from masters: ReadOnly and the Route options keep their defaults.
func (t target) options(timeout time.Duration) (*redis.UniversalOptions, error) {
	o := &redis.UniversalOptions{
		Addrs: t.addresses, IsClusterMode: t.cluster, MasterName: t.master, DB: t.db,
		Username: t.username, Password: t.password,
		SentinelUsername: t.sentinelUsername, SentinelPassword: t.sentinelPassword,
		MaxRetries: maxRetries, MaxRedirects: maxRedirects,
		MinRetryBackoff: 20 * time.Millisecond, MaxRetryBackoff: 200 * time.Millisecond,
		DialTimeout: timeout / 3, DialerRetries: 1, // so that there is time for another try
		ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              poolSize,
		PipelinePoolSize:      -1, // pipelines use these connections, and not others with four times the memory
		// An ACL need not allow commands that nothing depends on.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if !t.tls {
		return o, nil
	}
	// ServerName stays empty: each address has its own.
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if t.caFile != "" {
		pem, err := os.ReadFile(t.caFile)
		if err != nil {
			return nil, fmt.Errorf("reading the ca-file of the Redis URL: %w", err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("the ca-file of the Redis URL has no certificate in PEM form")
		}
	}
	if t.certFile != "" {
		pair, err := tls.LoadX509KeyPair(t.certFile, t.keyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the cert-file and the key-file of the Redis URL: %w", err)
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return o, nil
}
