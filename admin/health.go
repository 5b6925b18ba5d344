package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
)

// readyTimeout is how long a readiness answer waits for its checks.
const readyTimeout = 5 * time.Second

func (a *api) index(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, rt := range a.routes {
		if _, err := fmt.Fprintf(tw, "%s\t%s\t%s\n", rt.method, rt.path, rt.text()); err != nil {
			return nil // the reader has gone
		}
	}
	_ = tw.Flush() // the same
	return nil
}

// livez touches nothing: not the store, not a lock.
func (a *api) livez(w http.ResponseWriter, _ *http.Request) error {
	return writeText(w, http.StatusOK, "ok\n")
}

func (a *api) readyz(w http.ResponseWriter, r *http.Request) error {
	var checks []Check
	if a.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		checks = a.Ready(ctx)
	}
	status, last := http.StatusOK, "ok\n"
	var text strings.Builder
	for _, c := range checks {
		switch {
		case c.Err != nil:
			status, last = http.StatusServiceUnavailable, "not ready\n"
			fmt.Fprintf(&text, "[-] %s: %v\n", c.Name, c.Err)
		case r.URL.Query().Has("verbose"):
			fmt.Fprintf(&text, "[+] %s: %s\n", c.Name, c.Holds)
		}
	}
	return writeText(w, status, text.String()+last)
}

func (a *api) info(w http.ResponseWriter, r *http.Request) error {
	return writeJSON(w, a.Info(r.Context()))
}

func writeText(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a reader that has gone needs no answer
	return nil
}
