package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/rshub/rshub/admin"
)

// refused is an error that the API answers.
type refused struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (e *refused) Error() string { return e.Detail }

// get asks the API for what a page shows.
func (u *ui) get(r *http.Request, path string, query url.Values, into any) error {
	return u.ask(r, http.MethodGet, path, query, nil, into)
}

// ask sends the API a request with the role and the address of r, and reads its answer.
// Into may be nil. An error is a *refused.
func (u *ui) ask(r *http.Request, method, path string, query url.Values, body, into any) error {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return failed(err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(r.Context(), method, (&url.URL{Path: path, RawQuery: query.Encode()}).String(), content)
	if err != nil {
		return failed(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := u.answerTo(r, req)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(a.body.Bytes(), into); err != nil {
		return failed(err)
	}
	return nil
}

// raw gets an answer of the API that is not JSON.
func (u *ui) raw(r *http.Request, path string) (*answer, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, (&url.URL{Path: path}).String(), http.NoBody)
	if err != nil {
		return nil, failed(err)
	}
	return u.answerTo(r, req)
}

// answerTo has the API answer req, which is about r. An error is a *refused.
func (u *ui) answerTo(r, req *http.Request) (a *answer, err error) {
	a = &answer{header: http.Header{"X-Request-Id": {r.Header.Get("X-Request-Id")}}, status: http.StatusOK}
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler: // a list that broke off after its beginning, which is for clients that read it from a connection
			a, err = nil, &refused{Status: http.StatusServiceUnavailable, Detail: "What this page shows could not be read to its end. Load it again."}
		default:
			panic(cause)
		}
	}()
	u.api.ServeHTTP(a, about(r, req))
	if a.status >= http.StatusMultipleChoices {
		var p admin.Problem
		if json.Unmarshal(a.body.Bytes(), &p) != nil || p.Detail == "" {
			p.Detail = http.StatusText(a.status)
		}
		return nil, &refused{Status: a.status, Detail: p.Detail}
	}
	return a, nil
}

// about makes req, which the page sends to the API, one of the person who sent r.
func about(r, req *http.Request) *http.Request {
	req.RemoteAddr, req.Host = r.RemoteAddr, r.Host
	req.Header["X-Forwarded-For"] = r.Header["X-Forwarded-For"]
	return req
}

func failed(err error) error {
	return &refused{Status: http.StatusInternalServerError, Detail: fmt.Sprintf("The page could not ask the API: %v.", err)}
}

// answer holds what the API writes. The API bounds its answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
