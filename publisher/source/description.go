package source

import (
	"html/template"
	"io"
	"net/url"
	"slices"

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

// isListed reports whether a Capability List can list the document at a path.
func isListed(path string) bool {
	return slices.ContainsFunc(capabilityPaths, func(p struct{ capability, path string }) bool { return p.path == path })
}

// begun reports whether c has what a copy begins with: the Resource List and the Change
// List, unless they are disabled.
func (s *set) begun(c *register) bool {
	return (s.composer.schedule.ResourceList < 0 || c.has(resourceListPath)) && (s.composer.schedule.ChangeList < 0 || c.has(changeListPath))
}

// capabilityList writes the Capability List into the edition if it has to change for c
// (DOC-32, SRC-11). It lists the documents that exist, and the channels. There is none until
// there are the lists that a copy begins with: a Destination that read it earlier would
// believe that a Source during its first scan has no resources.
func (s *set) capabilityList(e *edition, c *register) error {
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
	var hubs []resourcesync.Link
	for _, h := range s.hubs {
		hubs = append(hubs, resourcesync.Link{Rel: "hub", Href: h})
	}
	for _, t := range s.topics {
		entries = append(entries, resourcesync.Entry{Loc: t.url, Capability: string(t.kind), Links: hubs})
	}
	words := []string{s.above}
	for _, entry := range entries {
		words = append(words, entry.Capability)
	}
	words = append(words, s.hubs...)
	links := append([]resourcesync.Link{{Rel: "up", Href: s.above}}, s.composer.describes(func(rs *Rules) []resourceLink { return rs.set })...)
	for _, l := range links[1:] {
		words = append(words, l.Href+" "+l.Type)
	}
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
		Links:      links,
	}, 0, each(entries))
	if err == nil {
		c.notify(resourcesync.CapabilityList, capabilityListPath, nil, existed)
	}
	return err
}

// describe writes the Source Description (DOC-30, SRC-12), the page and robots.txt (SRC-13,
// SRC-14). If the description has changed, it notifies every framework channel (DOC-20).
func (s *Source) describe() error {
	before, existed := s.site.current().Documents[descriptionPath]
	e := s.site.edition()
	defer e.discard()
	head := resourcesync.Head{Capability: resourcesync.Description}
	var entries []resourcesync.Entry
	for _, x := range s.sets {
		head.Links = append(head.Links, x.composer.describes(func(rs *Rules) []resourceLink { return rs.source })...)
		entries = append(entries, resourcesync.Entry{Loc: x.composer.url(capabilityListPath), Capability: resourcesync.CapabilityList})
	}
	if err := e.write(descriptionPath, head, 0, each(entries)); err != nil {
		return err
	}
	changed := e.last().SHA256 != before.SHA256
	err := e.compose(robotsPath, "text/plain; charset=utf-8", s.robots)
	if err == nil {
		err = e.compose(pagePath, "text/html; charset=utf-8", s.writePage)
	}
	if err == nil {
		_, err = e.show(func(*register) error { return nil })
	}
	for _, x := range s.sets {
		if err != nil || !changed || x.framework == nil {
			break
		}
		err = x.shelf.swap(func(c *register) error {
			c.History.notify(notice{Site: true, Path: descriptionPath, Capability: resourcesync.Description, Change: written(existed)})
			return nil
		})
		x.noticed.Broadcast()
	}
	return err
}

// robots leads crawlers to the Resource Lists (SRC-14).
func (s *Source) robots(w io.Writer) error {
	text := "User-agent: *\nAllow: /\n\n"
	for _, x := range s.sets {
		if x.composer.schedule.ResourceList < 0 {
			continue
		}
		text += "Sitemap: " + x.composer.url(resourceListPath) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// page is the page for browsers. Its links lead to the Capability Lists (SRC-13).
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

func (s *Source) writePage(w io.Writer) error {
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
	for _, x := range s.sets {
		data.Hubs = append(data.Hubs, x.hubs...)
	}
	slices.Sort(data.Hubs)
	data.Hubs = slices.Compact(data.Hubs)
	return page.Execute(w, data)
}
