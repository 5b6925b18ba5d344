package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"
)

// problem is an error that says what to answer.
type problem struct {
	status int
	detail string
}

func (p *problem) Error() string { return p.detail }

func notFound(format string, args ...any) *problem {
	return &problem{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *problem {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// fail answers with what err says; an error that is no problem is the store's.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p *problem
	if !errors.As(err, &p) {
		if r.Context().Err() != nil {
			return // nobody waits for the answer
		}
		a.Log.Warn("the store did not answer", zap.String("event", "admin_failed"), zap.String("path", r.URL.Path), zap.Error(err))
		p = &problem{http.StatusServiceUnavailable, fmt.Sprintf("The store did not answer: %v. Try again; /readyz may say more.", err)}
	}
	writeProblem(w, p)
}

func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	_ = newEncoder(w).Encode(Problem{Type: "about:blank", Title: http.StatusText(p.status), Status: p.status, Detail: p.detail}) // the reader has gone
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = newEncoder(w).Encode(v) // our types encode; else the reader has gone
	return nil
}

func newEncoder(w http.ResponseWriter) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // URLs stay readable
	return e
}
