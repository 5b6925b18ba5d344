package admin

import (
	"net/http"
	"net/http/pprof"

	"github.com/gorilla/mux"
)

// serving is a handler of package http as that of a route. It never fails.
func serving(h http.HandlerFunc) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		h(w, r)
		return nil
	}
}

// profiles are the paths of --pprof, for operators alone: a profile shows what is in memory.
// The command line is left out, because it may contain the password of Redis. Package
// net/http/pprof also puts its own into http.DefaultServeMux, which nothing here serves.
func profiles() []route {
	index := func(w http.ResponseWriter, r *http.Request) {
		if mux.Vars(r)["profile"] == "cmdline" {
			writeProblem(w, notFound("The command line is not shown, because it may hold passwords."))
			return
		}
		pprof.Index(w, r)
	}
	return []route{
		{http.MethodGet, "/debug/pprof/", "a page of the profiles there are", nil, operators(index)},
		{http.MethodGet, "/debug/pprof/profile", "a profile of the CPU; ?seconds=", nil, operators(pprof.Profile)},
		{http.MethodGet, "/debug/pprof/symbol", "names of program counters", nil, operators(pprof.Symbol)},
		{http.MethodGet, "/debug/pprof/trace", "what the scheduler did; ?seconds=", nil, operators(pprof.Trace)},
		{http.MethodGet, "/debug/pprof/{profile}", "heap, goroutine, block, mutex, allocs or threadcreate", nil, operators(index)},
	}
}

// operators is serving for those who may change the hub.
func operators(h http.HandlerFunc) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if RoleOf(r.Context()) != Operator {
			return refuse(http.StatusForbidden, "A reader, such as one with the token of --admin-readonly-token-file, may not see profiles of the process. Use the token of --admin-token-file, or the role operator.")
		}
		return serving(h)(w, r)
	}
}
