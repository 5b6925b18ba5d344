package ui

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/rshub/rshub/admin"
)

//go:embed static templates
var files embed.FS

// policy lets a page load what this listener serves, and nothing else; no script or style
// stands in the page itself, and nobody may show it in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ui is the pages. It has no state.
type ui struct {
	api   http.Handler
	pages map[string]*template.Template
	// layout is the template around each page, and wrong the page that shows an error.
	layout, wrong string
}

// New returns the handler of all below admin.PagePath. It asks api, with the context of
// each request, so that its role holds there as well.
func New(api http.Handler) http.Handler {
	u := &ui{api: api, pages: parse(), layout: "layout", wrong: "error"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+admin.PagePath+"static/{name}", static)
	for path, show := range map[string]func(*http.Request) (view, error){
		"{$}": u.now, "login": u.login, "find": u.find,
		"subscriptions": u.subscriptions, "subscriptions/{id}": u.subscription,
		"topics": u.topics, "topics/{id}": u.topic, "notifications/{id}": u.notification,
		"subscriptions/all": u.askMany, "refusals": u.refusals, "streams": u.streams, "publishers": u.publishers, "settings": u.settings, "hub": u.hub,
	} {
		mux.HandleFunc("GET "+admin.PagePath+path, u.show(show))
	}
	mux.HandleFunc("GET "+admin.PagePath+"notifications/{id}/document", u.document)
	mux.HandleFunc("POST "+admin.PagePath+"subscriptions/all", u.doMany)
	mux.HandleFunc("POST "+admin.PagePath+"subscriptions/{id}/verify", u.show(u.verify))
	mux.HandleFunc("POST "+admin.PagePath+"{kind}/{id}/{action}", u.act)
	mux.HandleFunc("POST "+admin.PagePath+"hub/reload", u.reload)
	mux.HandleFunc(admin.PagePath, u.show(func(r *http.Request) (view, error) {
		return view{}, &refused{Status: http.StatusNotFound, Detail: "There is no page at " + r.URL.Path + "."}
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		// With no-referrer, browsers send the forms of a page on plain http with Origin: null,
		// as if another site had sent them.
		w.Header().Set("Referrer-Policy", "same-origin")
		mux.ServeHTTP(w, r)
	})
}

// static serves a file that pages load.
func static(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, files, "static/"+r.PathValue("name"))
}

// view is a page: the name of its template, its title, and what it shows.
type view struct {
	Page, Title string
	Data        any
	// Live has the script refresh the figures.
	Live bool
	// To is where the browser is sent instead, if that is not empty.
	To string
	// On is the query with which the browser asks at once for what the page has not found yet;
	// empty: it has all.
	On template.URL
}

// frame is what the layout of every page shows around a view.
type frame struct {
	view
	Path     string
	Who      string // the person, if a proxy names one
	Reader   bool   // may change nothing
	Sessions bool   // there is a session to end
	Done     string // what a form did a moment ago
}

// titles are those of pages about an error, where the name of the status says little.
var titles = map[int]string{
	http.StatusServiceUnavailable: "The hub cannot answer that now",
	http.StatusBadRequest:         "That does not work",
	http.StatusForbidden:          "You may not do that",
}

// show writes the view of a request.
func (u *ui) show(of func(*http.Request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := of(r)
		status := http.StatusOK
		var no *refused
		if errors.As(err, &no) {
			status = no.Status
			v = view{Page: u.wrong, Title: cmp.Or(titles[no.Status], http.StatusText(no.Status)), Data: no}
		}
		if v.To != "" {
			http.Redirect(w, r, v.To, http.StatusSeeOther)
			return
		}
		_, cookie := r.Cookie("rshub_session")
		f := frame{view: v, Path: r.URL.Path, Who: admin.PersonOf(r.Context()), Reader: admin.RoleOf(r.Context()) == admin.Reader, Sessions: cookie == nil, Done: done[r.URL.Query().Get("done")]}
		var out bytes.Buffer
		if err := u.pages[v.Page].ExecuteTemplate(&out, u.layout, f); err != nil {
			panic(err) // a template that does not fit its data
		}
		if v.On != "" {
			w.Header().Set("Refresh", "0; url=?"+string(v.On)) // browsers do that without a script
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = out.WriteTo(w) // the reader may have gone
	}
}

// parse reads the template of each page, with the layout and the parts that pages share.
func parse() map[string]*template.Template {
	pages := map[string]*template.Template{}
	shared := template.Must(template.New("").Funcs(words).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	names, err := files.ReadDir("templates")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, f := range names {
		name := strings.TrimSuffix(f.Name(), ".html")
		pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(files, "templates/"+f.Name()))
	}
	return pages
}
