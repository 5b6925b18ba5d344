package app

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/admin/ui"
)

// linksPath is where the pages of subscribers are, below the hub URI.
const linksPath = "subscription/"

// links are those to the pages of subscribers; nil: there are none.
func (a *App) links() *admin.Links {
	if !a.cfg.SubscriberPages {
		return nil
	}
	u, _ := url.Parse(a.hubURL) // it is valid
	u.RawQuery = ""
	return &admin.Links{Shelf: a.backend, URL: strings.TrimSuffix(u.String(), "/") + "/" + linksPath, Now: a.clock.Earliest}
}

// publicHandler is the hub, with the pages of subscribers below it.
func (a *App) publicHandler() http.Handler {
	links := a.links()
	if links == nil {
		return a.hub
	}
	u, _ := url.Parse(links.URL)
	below := u.EscapedPath()
	page := admin.NewSubscriberPage(admin.Options{
		Topics: a.store, Subscriptions: a.store, Control: operator{a}.control, Now: a.clock.Earliest, Log: a.log,
		People: &admin.People{Proxies: a.cfg.TrustedProxy}, // for the address of the requester
	}, append([]string{u.Host}, a.cfg.AllowHost...), func(api http.Handler) http.Handler { return ui.NewLinked(api, links) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.EscapedPath(), below)
		if !ok {
			a.hub.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(rest, "/") { // else package http would redirect to a path that is not below
			http.NotFound(w, r)
			return
		}
		r = r.WithContext(r.Context()) // a copy
		at := *r.URL
		at.Path, at.RawPath = "/"+rest, ""
		r.URL = &at
		page.ServeHTTP(w, r)
	})
}
