package main

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber"
)

// addTokens adds --token-file.
func addTokens(flags *pflag.FlagSet, to *[]string) {
	flags.StringArrayVar(to, "token-file", nil, "`HOST=FILE`: FILE has the bearer token for HOST, and is read again when it changes; repeatable")
}

// tokens are the bearer tokens of --token-file, by host or host:port.
type tokens map[string]*cli.Credential

// readTokens reads the files of --token-file.
func readTokens(values []string) (tokens, error) {
	all := make(tokens)
	for _, v := range values {
		host, file, ok := strings.Cut(v, "=")
		if !ok || !egress.IsHost(host) || file == "" {
			return nil, cli.Fail(cli.ExitUsage, "--token-file %q must be of the form HOST=FILE, with a HOST or HOST:PORT", v)
		}
		token, err := cli.ReadCredential("--token-file", file)
		if err != nil {
			return nil, err
		}
		all[egress.Host(host)] = token
	}
	return all, nil
}

// now returns the current token of a host; empty: it has none.
func (t tokens) now(host string) string {
	if token := t[host]; token != nil {
		return token.Get()
	}
	return ""
}

// of returns the token for a URL. One for a name without a port is not sent over plain http.
func (t tokens) of(u *url.URL) string {
	if token := t.now(egress.HostPort(u)); token != "" || !strings.EqualFold(u.Scheme, "https") {
		return token
	}
	return t.now(egress.HostName(u))
}

// authorized sends each request with the token of its host, if there is one. A POST asks a hub that a topic
// names, and gets none.
type authorized struct {
	client subscriber.Doer
	tokens tokens
}

func (a authorized) Do(req *http.Request) (*http.Response, error) {
	if token := a.tokens.of(req.URL); token != "" && req.Method != http.MethodPost {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return a.client.Do(req)
}
