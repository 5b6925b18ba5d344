package web

import (
	"net/http"
	"time"
)

// ValidatorsOf returns the validators of a response, for IfChanged. A server that counts the time of modification in
// whole seconds gives the same ones to what it has a moment later. So if the response was sent in that second or the
// next one, they prove nothing, and both are empty.
func ValidatorsOf(resp *http.Response) (etag, modified string) {
	etag, modified = resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	sent, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		sent = time.Now()
	}
	if at, err := http.ParseTime(modified); err == nil && sent.Sub(at) < 2*time.Second {
		return "", ""
	}
	return etag, modified
}

// IfChanged sets the conditions of a request, so that a server answers 304 to it if what it has is unchanged. False:
// there are none, as both validators are empty.
func IfChanged(header http.Header, etag, modified string) bool {
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	if modified != "" {
		header.Set("If-Modified-Since", modified)
	}
	return etag != "" || modified != ""
}
