package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
)

// walk goes from one document to those that it lists, depth first, one request
// at a time.
type walk struct {
	inputs         inputs
	strict, follow bool
	left           int                  // how many documents may still be looked at
	seen           map[string]*document // by URL
	report         func(*verdict) error
	failed         bool // one of the documents
}

// start looks at a document and what follows from it, and reports whether all
// of it is valid. Its error is that of getting at the first document, or of
// reporting it.
func (w *walk) start(ctx context.Context, name string) (valid bool, err error) {
	in, closing, err := w.inputs.get(ctx, name)
	if err != nil {
		return false, err
	}
	defer closing()
	w.left--
	d, err := w.judge(in)
	if err != nil {
		return false, err
	}
	err = w.visit(ctx, d, nil)
	return !w.failed, err
}

// judge looks at a document by itself, and remembers it.
func (w *walk) judge(in input) (*document, error) {
	d, err := judge(in, w.strict)
	if err != nil {
		return nil, err
	}
	for _, u := range []string{d.requested, d.final} {
		if u != "" {
			w.seen[canonical(u)] = d
		}
	}
	return d, nil
}

// listed gets a document that another one lists, from the network and nowhere
// else. It reports whether the document is known already, under this URL or the
// one that this redirects to.
func (w *walk) listed(ctx context.Context, loc string) (d *document, known bool, err error) {
	if d = w.seen[canonical(loc)]; d != nil {
		return d, true, nil
	}
	if w.left <= 0 {
		return nil, false, errTooMany
	}
	w.left-- // those that can't be had count as well
	in, err := w.inputs.fetch(ctx, loc)
	if err != nil {
		return nil, false, err
	}
	if d = w.seen[canonical(in.final)]; d != nil {
		w.seen[canonical(loc)] = d
		return d, true, nil
	}
	d, err = w.judge(in)
	return d, false, err
}

// errTooMany says that no more documents are to be looked at.
var errTooMany = errors.New("enough documents")

// visit looks at what a document lists, and reports it. Above are the documents
// that led to it.
func (w *walk) visit(ctx context.Context, d *document, above []*document) error {
	if w.follow && len(d.listed) > 0 {
		if err := w.visitListed(ctx, d, append(above, d)); err != nil {
			return err
		}
		d.listed = nil // a Source may have many such documents
	}
	w.failed = w.failed || !d.Valid
	return w.report(&d.verdict)
}

// visitListed looks at the documents that d lists. What does not agree is told
// of d, at the entry.
func (w *walk) visitListed(ctx context.Context, d *document, above []*document) error {
	check := agreement{list: d, strict: w.strict, listed: make(map[*document]bool)}
	over := 0
	for i := range d.listed {
		e := &d.listed[i]
		if isNotification(e.Capability) {
			continue // its address is that of a topic, which need not have content
		}
		child, known, err := w.listed(ctx, e.Loc)
		var failure *Error
		switch {
		case errors.Is(err, errTooMany):
			over++
			check.broken()
			continue
		case errors.As(err, &failure) && ctx.Err() == nil:
			check.fail(e, "%v", failure.Err)
			check.broken()
			continue
		case err != nil:
			return err
		}
		check.agrees(e, child, above)
		if !known {
			if err := w.visit(ctx, child, above); err != nil {
				return err
			}
		}
	}
	if over > 0 {
		// Not even strictly is this the document's fault.
		d.add(finding{Level: levelWarn, Rule: listRule(d.head), Message: fmt.Sprintf("%s of those that it lists were not looked at; see --max-documents", Count(over, "document", "documents"))})
	}
	check.end()
	return nil
}

// listRule is the rule that a document is under whose entries are other documents
// of ResourceSync. It is empty for all other documents.
func listRule(h resourcesync.Head) string {
	archive := strings.HasSuffix(h.Capability, archiveSuffix)
	switch {
	case h.Index && archive:
		return "DOC-46"
	case h.Index:
		return map[string]string{
			resourcesync.Description: "DOC-31", resourcesync.CapabilityList: "DOC-33", resourcesync.ResourceList: "DOC-35",
			resourcesync.ResourceDump: "DOC-37", resourcesync.ChangeList: "DOC-40", resourcesync.ChangeDump: "DOC-42",
		}[h.Capability]
	case h.Capability == resourcesync.Description:
		return "DOC-30"
	case h.Capability == resourcesync.CapabilityList:
		return "DOC-32"
	case h.Capability == resourcesync.ResourceListArchive, h.Capability == resourcesync.ResourceDumpArchive:
		return "DOC-44"
	case archive:
		return "DOC-45"
	}
	return ""
}

const archiveSuffix = "-archive"

// canonical makes URLs that are the same equal. What is no URL stays as it is.
func canonical(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	u.Scheme, u.Host, u.Fragment = strings.ToLower(u.Scheme), egress.HostPort(u), ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}

// fail tells of something that does not agree, at an entry of the list.
func (a *agreement) fail(e *resourcesync.Entry, format string, args ...any) {
	a.list.add(finding{levelFail, "inconsistent", listRule(a.list.head), e.Line, e.Column, fmt.Sprintf(format, args...)})
}

// warn tells of something that should be otherwise.
func (a *agreement) warn(e *resourcesync.Entry, format string, args ...any) {
	if a.strict {
		a.fail(e, format, args...)
		return
	}
	a.list.add(finding{levelWarn, "", listRule(a.list.head), e.Line, e.Column, fmt.Sprintf(format, args...)})
}
