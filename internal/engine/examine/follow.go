package examine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/resourcesync"
)

// errTooMany says that the limit of documents is reached.
var errTooMany = errors.New("enough documents")

// load fetches a document that another one lists, from the network only. It reports
// whether the document is known already, under this URL or the one that this
// redirects to.
func (x *examination) load(ctx context.Context, loc string, most int64) (d *Document, known bool, err error) {
	if d = x.seen[canonical(loc)]; d != nil {
		return d, true, nil
	}
	if x.left <= 0 {
		return nil, false, errTooMany
	}
	x.left-- // those that cannot be fetched count as well
	in, err := x.fetch(ctx, loc, most)
	if err != nil {
		return nil, false, err
	}
	if d = x.seen[canonical(in.final)]; d != nil {
		x.seen[canonical(loc)] = d
		return d, true, nil
	}
	if in.cut && in.isPackage() {
		return nil, false, errTooLarge
	}
	if d, err = x.check(in); err == nil {
		x.remember(ctx, in, d)
	}
	return d, false, err
}

// maxDepth is how many documents may lead to one. A Source Description Index, an index of
// archives and all that can be between them are 9.
const maxDepth = 16

// visit checks what a document lists, and reports it. Above are the documents that
// led to it.
func (x *examination) visit(ctx context.Context, d *Document, above []*Document) error {
	switch {
	case len(above) == maxDepth && len(d.listed) > 0:
		d.add(Finding{Level: Warn, Rule: listRule(d.head), Message: fmt.Sprintf("what it lists was not checked: %d documents lead to it, one from the other", maxDepth)})
	case len(d.listed) > 0:
		if err := x.visitListed(ctx, d, append(above, d)); err != nil {
			return err
		}
	}
	if x.source != nil {
		x.source.visited(d, above)
	}
	d.listed = nil // a Source may have many such documents
	x.failed = x.failed || !d.Valid
	return x.report(d)
}

// visitListed checks the documents that d lists. A disagreement is reported in d, at
// the entry.
func (x *examination) visitListed(ctx context.Context, d *Document, above []*Document) error {
	a := agreement{examination: x, list: d, listed: make(map[*Document]bool)}
	listed, most := d.listed, resourcesync.DefaultLimits.Bytes
	if isDump(d.head) {
		listed, most = x.newest(d, above), x.o.MaxPackage
	}
	over := 0
	for i := range listed {
		e := &listed[i]
		if isNotification(e.Capability) {
			a.channel(ctx, e)
			continue
		}
		child, known, err := x.load(ctx, e.Loc, most)
		var unread *failure
		switch {
		case errors.Is(err, errTooMany):
			over++
			a.missed = true
			continue
		case errors.Is(err, errTooLarge):
			x.tooLarge(d, e.Loc+" is")
			continue
		case errors.As(err, &unread) && ctx.Err() == nil:
			a.fail(e, "%v", err)
			a.missed = true
			continue
		case err != nil:
			return err
		}
		a.agrees(e, child, above)
		if !known {
			if err := x.visit(ctx, child, above); err != nil {
				return err
			}
		}
	}
	if over > 0 {
		// This is not the document's fault, so Options.Strict does not matter.
		d.add(Finding{Level: Warn, Rule: listRule(d.head), Message: fmt.Sprintf("%s of those that it lists were not checked; see --max-documents", quantity.Count(over, "document", "documents"))})
	}
	a.end()
	return nil
}

// errTooLarge says that a package is larger than Options.MaxPackage.
var errTooLarge = errors.New("the package is too large")

// newest returns the entry of the newest package that is not too large. The packages that
// an archive lists may be gone, so none is fetched.
func (x *examination) newest(d *Document, above []*Document) []resourcesync.Entry {
	if x.o.MaxPackage < 0 || belowArchive(above) {
		return nil
	}
	for i := len(d.listed) - 1; i >= 0; i-- {
		if e := &d.listed[i]; !e.HasLength || e.Length <= x.o.MaxPackage {
			return d.listed[i : i+1]
		}
	}
	x.tooLarge(d, "all of its packages are")
	return nil
}

// tooLarge reports that a package was not checked, which is not the document's fault.
func (x *examination) tooLarge(d *Document, what string) {
	d.add(Finding{Level: Warn, Rule: listRule(d.head), Message: fmt.Sprintf("%s larger than %s and was not checked; see --max-package", what, quantity.BytesText(x.o.MaxPackage))})
}

// listRules are the rules of the documents whose entries are other documents of
// ResourceSync, or packages, by resourcesync.Head.Kind.
var listRules = map[string]string{
	"Source Description": "DOC-30", "Source Description Index": "DOC-31",
	"Capability List": "DOC-32", "Capability List Index": "DOC-33", "Resource List Index": "DOC-35",
	"Resource Dump": "DOC-36", "Resource Dump Index": "DOC-37", "Change List Index": "DOC-40",
	"Change Dump": "DOC-41", "Change Dump Index": "DOC-42",
	"Resource List Archive": "DOC-44", "Resource Dump Archive": "DOC-44",
	"Change List Archive": "DOC-45", "Change Dump Archive": "DOC-45",
	"Resource List Archive Index": "DOC-46", "Resource Dump Archive Index": "DOC-46",
	"Change List Archive Index": "DOC-46", "Change Dump Archive Index": "DOC-46",
}

// listRule is one of listRules. It is empty for all other documents.
func listRule(h resourcesync.Head) string { return listRules[h.Kind()] }

const archiveSuffix = "-archive"

func isArchive(capability string) bool { return strings.HasSuffix(capability, archiveSuffix) }

func belowArchive(above []*Document) bool {
	return slices.ContainsFunc(above, func(d *Document) bool { return isArchive(d.Capability) })
}

// isDump reports whether the entries of a document are packages.
func isDump(h resourcesync.Head) bool {
	return !h.Index && (h.Capability == resourcesync.ResourceDump || h.Capability == resourcesync.ChangeDump)
}

// canonical makes equivalent URLs equal. Anything that is no URL stays as it is.
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
