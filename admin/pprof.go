package admin

import (
	"net/http"
	"net/http/pprof"
)

// serving is a handler of package http as that of a route. It never fails.
func serving(h http.HandlerFunc) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		h(w, r)
		return nil
	}
}

// profiles are the paths of --pprof. Package net/http/pprof also puts its own
// into http.DefaultServeMux, which nothing here serves.
func profiles() []route {
	return []route{
		{http.MethodGet, "/debug/pprof/", "a page of the profiles there are", nil, serving(pprof.Index)},
		{http.MethodGet, "/debug/pprof/cmdline", "the command line", nil, serving(pprof.Cmdline)},
		{http.MethodGet, "/debug/pprof/profile", "a profile of the CPU; ?seconds=", nil, serving(pprof.Profile)},
		{http.MethodGet, "/debug/pprof/symbol", "names of program counters", nil, serving(pprof.Symbol)},
		{http.MethodGet, "/debug/pprof/trace", "what the scheduler did; ?seconds=", nil, serving(pprof.Trace)},
		{http.MethodGet, "/debug/pprof/{profile}", "heap, goroutine, block, mutex, allocs or threadcreate", nil, serving(pprof.Index)},
	}
}
