package source

import (
	"html/template"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// The documents of a Source as a whole.
const (
	descriptionPath = ".well-known/resourcesync"
	robotsPath      = "robots.txt"
	pagePath        = "index.html"
)

// capabilityPaths are the documents that a Capability List lists, in its order.
var capabilityPaths = []struct{ capability, path string }{
	{resourcesync.ResourceList, resourceListPath},
	{resourcesync.ChangeList, changeListPath},
	{resourcesync.ResourceDump, resourceDumpPath},
	{resourcesync.ChangeDump, changeDumpPath},
	{resourcesync.ResourceListArchive, resourceListArchivePath},
	{resourcesync.ResourceDumpArchive, resourceDumpArchivePath},
	{resourcesync.ChangeListArchive, changeListArchivePath},
	{resourcesync.ChangeDumpArchive, changeDumpArchivePath},
}

// begun reports whether c has what a copy begins with: the Resource List and the
// Change List, as far as these are written at all.
func (s *set) begun(c *catalogue) bool {
	return (s.composer.schedule.ResourceList < 0 || c.has(resourceListPath)) && (s.composer.schedule.ChangeList < 0 || c.has(changeListPath))
}

// capabilityList writes the Capability List into the edition if it has to change
// for c (DOC-32, SRC-11): it lists the documents that there are, and the channels. It
// waits for the lists that a copy begins with. A Destination that read it before these
// would take a Source that is being scanned for one without resources.
func (s *set) capabilityList(e *edition, c *catalogue) error {
	if !s.begun(c) {
		return nil
	}
	var entries []resourcesync.Entry
	indexed := c.has(changeListIndexPath)
	for _, p := range capabilityPaths {
		if p.path == changeListPath && indexed {
			p.path = changeListIndexPath
		}
		if c.has(p.path) {
			entries = append(entries, resourcesync.Entry{Loc: s.composer.url(p.path), Capability: p.capability})
		}
	}
	if s.changes != nil {
		var hubs []resourcesync.Link
		for _, h := range s.hubs {
			hubs = append(hubs, resourcesync.Link{Rel: "hub", Href: h})
		}
		entries = append(entries,
			resourcesync.Entry{Loc: s.composer.url(changesPath), Capability: resourcesync.ChangeNotification, Links: hubs},
			resourcesync.Entry{Loc: s.composer.url(frameworkPath), Capability: resourcesync.FrameworkNotification, Links: hubs})
	}
	words := []string{s.above}
	for _, entry := range entries {
		words = append(words, entry.Capability)
	}
	words = append(words, s.hubs...)
	if indexed {
		words = append(words, changeListIndexPath)
	}
	existed := c.has(capabilityListPath)
	if existed && slices.Equal(words, c.History.Capabilities) {
		return nil
	}
	c.History.Capabilities = words
	err := e.write(capabilityListPath, resourcesync.Head{
		Capability: resourcesync.CapabilityList,
		Links:      []resourcesync.Link{{Rel: "up", Href: s.above}},
	}, entries)
	if err == nil {
		c.notify(resourcesync.CapabilityList, capabilityListPath, nil, existed)
	}
	return err
}

// describe writes the Source Description (DOC-30, SRC-12), the page and robots.txt
// (SRC-13, SRC-14). It reports whether the description is another than before.
func (s *Source) describe() (changed, existed bool, err error) {
	before, existed := s.site.current().Documents[descriptionPath]
	e := s.site.edition()
	var entries []resourcesync.Entry
	for _, x := range s.sets {
		entries = append(entries, resourcesync.Entry{Loc: x.composer.url(capabilityListPath), Capability: resourcesync.CapabilityList})
	}
	err = e.write(descriptionPath, resourcesync.Head{Capability: resourcesync.Description}, entries)
	if err == nil {
		changed = e.last().SHA256 != before.SHA256
		err = e.compose(robotsPath, "text/plain; charset=utf-8", s.robots)
	}
	if err == nil {
		err = s.writePage(e)
	}
	if err != nil {
		e.discard()
		return false, false, err
	}
	_, err = e.show(func(*catalogue) error { return nil })
	return changed, existed, err
}

// robots leads crawlers to the Resource Lists (SRC-14).
func (s *Source) robots(w io.Writer) error {
	text := "User-agent: *\nAllow: /\n\n"
	for _, x := range s.sets {
		text += "Sitemap: " + x.composer.url(resourceListPath) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// page is what a browser shows. Its links lead to the Capability Lists (SRC-13).
var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>ResourceSync at {{.Host}}</title>
{{- range .Sets}}
<link rel="resourcesync" href="{{.}}">
{{- end}}
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
pre { padding: .8rem; overflow-x: auto; border: 1px solid #8886; border-radius: .3rem; }
</style>
</head>
<body>
<h1>ResourceSync at {{.Host}}</h1>
<p>The resources of this server can be copied, and the copy kept up to date, with
<a href="https://www.openarchives.org/rs/">ResourceSync</a>. A program begins at the
<a href="{{.Description}}">Source Description</a>:</p>
<pre>rssub follow {{.Site}} --dir COPY</pre>
<h2>Capability Lists</h2>
<ul>
{{- range .Sets}}
<li><a href="{{.}}">{{.}}</a></li>
{{- end}}
</ul>
{{- with .Hubs}}
<h2>Pushed through</h2>
<ul>
{{- range .}}
<li><a href="{{.}}">{{.}}</a></li>
{{- end}}
</ul>
{{- end}}
</body>
</html>
`))

func (s *Source) writePage(e *edition) error {
	at, err := url.Parse(s.o.PublicURL)
	if err != nil {
		return err
	}
	data := struct {
		Host, Site, Description string
		Sets, Hubs              []string
	}{Host: at.Host, Site: s.o.PublicURL, Description: s.o.PublicURL + descriptionPath}
	for _, x := range s.sets {
		data.Sets = append(data.Sets, x.composer.url(capabilityListPath))
	}
	for _, h := range s.o.Hubs {
		data.Hubs = append(data.Hubs, h.URL)
	}
	return e.compose(pagePath, "text/html; charset=utf-8", func(w io.Writer) error { return page.Execute(w, data) })
}

// announce has every framework channel tell that the Source Description changed
// (DOC-20).
func (s *Source) announce(existed bool) error {
	for _, x := range s.sets {
		err := x.shelf.swap(func(c *catalogue) error {
			if x.framework != nil {
				c.History.notify(notice{At: time.Now().UTC(), Site: true, Path: descriptionPath, Capability: resourcesync.Description, Change: written(existed)})
			}
			return nil
		})
		if err != nil {
			return err
		}
		x.noticed.ring()
	}
	return nil
}
