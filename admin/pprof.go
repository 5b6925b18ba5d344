package admin

import (
	"net/http"
	"net/http/pprof"
)

// profiles are the paths of --pprof. Package net/http/pprof also puts its own
// into http.DefaultServeMux, which nothing here serves.
func profiles() []route {
	serve := func(h http.HandlerFunc) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			h(w, r)
			return nil
		}
	}
	return []route{
		{http.MethodGet, "/debug/pprof/", "a page of the profiles there are", nil, serve(pprof.Index)},
		{http.MethodGet, "/debug/pprof/cmdline", "the command line", nil, serve(pprof.Cmdline)},
		{http.MethodGet, "/debug/pprof/profile", "a profile of the CPU; ?seconds=", nil, serve(pprof.Profile)},
		{http.MethodGet, "/debug/pprof/symbol", "names of program counters", nil, serve(pprof.Symbol)},
		{http.MethodGet, "/debug/pprof/trace", "what the scheduler did; ?seconds=", nil, serve(pprof.Trace)},
		{http.MethodGet, "/debug/pprof/{profile}", "heap, goroutine, block, mutex, allocs or threadcreate", nil, serve(pprof.Index)},
	}
}
