package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/base/web"
)

const (
	defaultAdminURL = "http://127.0.0.1:8081"
	// maxAnswer bounds one answer of the API, which is one page at most.
	maxAnswer = 32 << 20
	pageSize  = 500
)

// Env is what the commands get from outside.
type Env struct {
	// Getenv returns a variable of the environment, empty if it is not set.
	Getenv func(string) string
	// Terminal reports whether a stream of a command is a terminal, and how many columns
	// it has, 0 if unknown. Nil: the operating system is asked.
	Terminal func(stream any) (columns int, ok bool)
}

// client speaks to the operator's API of a hub.
type client struct {
	base      string // without a slash at the end
	token     string
	tokenFrom string // the file that the token is of
	http      *http.Client
}

// patient returns a client without a time limit.
func (c *client) patient() *client {
	p := *c
	p.http = &http.Client{CheckRedirect: c.http.CheckRedirect}
	return &p
}

// clientFlags are the flags of every command that speaks to a hub.
type clientFlags struct {
	url, tokenFile string
	json           bool
}

func (f *clientFlags) add(cmd *cobra.Command, json string) {
	cmd.Flags().StringVar(&f.url, "admin-url", "", "`URL` of the hub's operator listener (RSHUB_ADMIN_URL; default "+defaultAdminURL+")")
	cmd.Flags().StringVar(&f.tokenFile, "admin-token-file", "", "`FILE` with the operator's bearer token (RSHUB_ADMIN_TOKEN_FILE)")
	cmd.Flags().BoolVar(&f.json, "json", false, json)
}

func (f *clientFlags) client(env Env) (*client, error) {
	raw := cmp.Or(f.url, env.Getenv("RSHUB_ADMIN_URL"), defaultAdminURL)
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		if strings.Contains(raw, "@") { // there may be a password before it
			return nil, Fail(ExitUsage, "the hub's address in --admin-url or RSHUB_ADMIN_URL is not a plain http or https URL; write it like %s, without a user name or password. The operator's token goes into the file of --admin-token-file", defaultAdminURL)
		}
		return nil, Fail(ExitUsage, "the hub's address %q is not a plain http or https URL; write it like %s, in --admin-url or RSHUB_ADMIN_URL", raw, defaultAdminURL)
	}
	c := &client{
		base: strings.TrimRight(raw, "/"),
		http: &http.Client{
			Timeout: time.Minute,
			// The token is for this address alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if name := cmp.Or(f.tokenFile, env.Getenv("RSHUB_ADMIN_TOKEN_FILE")); name != "" {
		token, err := os.ReadFile(name) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, Fail(ExitUsage, "the operator's token: %w", err)
		}
		c.token, c.tokenFrom = strings.TrimSpace(string(token)), name
		if c.token == "" {
			return nil, Fail(ExitUsage, "the operator's token: there is none in %s", name)
		}
	}
	return c, nil
}

// get asks the API for path and decodes the answer.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.call(ctx, http.MethodGet, path, query, nil, into)
}

// call makes one call of the API and decodes the answer. A nil body is none.
func (c *client) call(ctx context.Context, method, path string, query url.Values, body, into any) error {
	resp, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	answer, err := egress.ReadBody(resp.Body, maxAnswer)
	if err != nil {
		return Fail(ExitFailure, "reading the answer of %s: %w", c.base, err)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return c.stranger(err.Error())
	}
	return nil
}

// send makes one call of the API. The caller closes the body of the answer, which is 200 or 202.
func (c *client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	where := c.base + path
	if len(query) > 0 {
		where += "?" + query.Encode()
	}
	var content io.Reader // none
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, where, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var broken *url.Error
		if errors.As(err, &broken) {
			err = broken.Err
		}
		if plain, ok := strings.CutPrefix(c.base, "https:"); ok && errors.Is(err, http.ErrSchemeMismatch) {
			return nil, Fail(ExitUnreachable, "%s does not speak https; write http:%s in --admin-url or RSHUB_ADMIN_URL", c.base, plain)
		}
		if errors.Is(err, io.EOF) { // a list that broke off early, or a hub that has just ended
			return nil, Fail(ExitFailure, "the hub at %s broke off its answer: its store failed meanwhile, or the hub ended; `rshub health` and the log of the hub may say more", c.base)
		}
		return nil, Fail(ExitUnreachable, "no hub answers at %s: %w\nStart one with `rshub serve`, or say where it is with --admin-url or RSHUB_ADMIN_URL", c.base, err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusAccepted {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // only read
	answer, err := egress.ReadBody(resp.Body, maxAnswer)
	if err != nil {
		return nil, Fail(ExitFailure, "reading the answer of %s: %w", c.base, err)
	}
	return nil, c.refused(resp, answer)
}

// stranger is the error if something other than a hub answers.
func (c *client) stranger(why string) error {
	return Fail(ExitFailure, "what answers at %s is not a hub's operator listener: %s\nSay where that is with --admin-url or RSHUB_ADMIN_URL", c.base, Line(why))
}

// foreign is the error if this version cannot read an answer.
func (c *client) foreign(err error) error {
	return Fail(ExitFailure, "the answer of the hub at %s can't be read: %w; is it of another version? `rshub info` and `rshub version` report both", c.base, err)
}

// refused turns an answer that is neither 200 nor 202 into an error.
func (c *client) refused(resp *http.Response, body []byte) error {
	detail := Line(resp.Status)
	var p admin.Problem
	ours := json.Unmarshal(body, &p) == nil && p.Detail != ""
	if ours {
		detail = Line(p.Detail)
	}
	refuses := "the hub at %s refuses: %s"
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized && c.token != "":
		return Fail(ExitRefused, "the hub at %s does not know this token: %s\nThe token comes from %s; the hub's own is in the file of its --admin-token-file", c.base, detail, c.tokenFrom)
	case code == http.StatusUnauthorized:
		return Fail(ExitRefused, refuses+"\nGive the token with --admin-token-file or RSHUB_ADMIN_TOKEN_FILE", c.base, detail)
	case code == http.StatusMisdirectedRequest:
		return Fail(ExitRefused, refuses+"\nSay so in --admin-url or RSHUB_ADMIN_URL, such as %s", c.base, detail, defaultAdminURL)
	case code == http.StatusNotFound && (!ours || strings.HasPrefix(detail, "There is nothing here")): // the public listener says that
		return c.stranger(detail)
	case code == http.StatusMethodNotAllowed, code == http.StatusNotFound && strings.HasPrefix(detail, "There is nothing at "):
		return Fail(ExitFailure, "the hub at %s does not know this call: %s\nIs it of another version? `rshub info` and `rshub version` report both", c.base, detail)
	case code == http.StatusNotFound:
		return Fail(ExitNotFound, "%s", detail)
	case code >= 400 && code < 500:
		return Fail(ExitRefused, refuses, c.base, detail)
	case code == http.StatusServiceUnavailable:
		again := ""
		if after, asks := web.ParseRetryAfter(resp.Header, time.Now(), 24*time.Hour); asks { // it is only shown
			again = fmt.Sprintf("\nTry again in %s", quantity.SpanText(after))
		}
		return Fail(ExitFailure, "the hub at %s can't do this now: %s%s", c.base, detail, again)
	default:
		return Fail(ExitFailure, "the hub at %s answers %d: %s", c.base, code, detail)
	}
}

// ask asks the API for path and returns the answer, also as its JSON. If is says that no hub
// gives such an answer, the error says why.
func ask[A any](ctx context.Context, c *client, path, why string, is func(A) bool) (raw json.RawMessage, answer A, err error) {
	if err = c.get(ctx, path, nil, &raw); err == nil && (json.Unmarshal(raw, &answer) != nil || !is(answer)) {
		err = c.stranger(why)
	}
	return raw, answer, err
}

// filters is the query of the values that are not empty.
func filters(values map[string]string) url.Values {
	query := url.Values{}
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// pages requests the pages of a list one after the other, and calls do with each.
func (c *client) pages(ctx context.Context, path string, query url.Values, do func(items []json.RawMessage) error) error {
	query.Set("limit", strconv.Itoa(pageSize))
	for {
		var page admin.Page[json.RawMessage]
		if err := c.get(ctx, path, query, &page); err != nil {
			return err
		}
		if err := do(page.Items); err != nil {
			return err
		}
		if page.Next == "" {
			return nil
		}
		if page.Next == query.Get("after") {
			return fmt.Errorf("the hub at %s gives the same page again", c.base)
		}
		query.Set("after", page.Next)
	}
}
