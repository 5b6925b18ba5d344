package examine

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/rshub/rshub/internal/base/web"
)

// Options configure an examination. Client is required to read a URL.
type Options struct {
	// Client makes the requests.
	Client web.Doer
	// Stdin is the document that CheckDocument calls "-".
	Stdin io.Reader
	// Strict turns each warning about a document into a failure.
	Strict bool
	// Follow makes CheckDocument check what the document lists as well. CheckSource
	// always does.
	Follow bool
	// MaxDocuments is how many documents are checked; zero: 1,000.
	MaxDocuments int
	// MaxPackage is the largest package of a dump that is fetched, in bytes; zero:
	// 64 MiB, negative: none is.
	MaxPackage int64
	// Sample is how many resources of each list CheckSource fetches and compares;
	// zero: 20, negative: none.
	Sample int
	// Timeout bounds each exchange; zero: 1 min.
	Timeout time.Duration
	// Pause is the time between two requests to one host.
	Pause time.Duration
}

// Result counts the findings of CheckSource.
type Result struct {
	Passed, Warned, Failed int
	Documents, Resources   int // that were checked
}

// CheckDocument checks the document called name: a file, an http or https URL, or -
// for Options.Stdin. With Options.Follow it also checks what the document lists, and
// calls report for each of these documents before the one that lists it. Valid means
// that no document fails. The error says why the first document could not be read,
// or comes from report.
func CheckDocument(ctx context.Context, name string, o Options, report func(*Document) error) (valid bool, err error) {
	x := newExamination(o, report)
	in, closing, err := x.open(ctx, name)
	if err != nil {
		return false, err
	}
	defer closing()
	d, err := x.check(in)
	if err != nil {
		return false, err
	}
	x.begin(ctx, in, d)
	err = x.visit(ctx, d, nil)
	return !x.failed, err
}

// CheckSource checks the Source that a URL leads to: the URL of its site, of its Source
// Description, of any document or of any resource. It calls report for each finding, from
// one goroutine. The error says why there was nothing to check, or that ctx ended; errors
// of the Source itself are in the findings.
func CheckSource(ctx context.Context, url string, o Options, report func(Finding)) (Result, error) {
	return newSourceCheck(o, report).run(ctx, url)
}

// examination checks documents, depth first, one request at a time.
type examination struct {
	o      Options
	asked  map[string]time.Time // when a host may be asked again
	left   int                  // how many documents may still be checked
	seen   map[string]*Document // by URL
	report func(*Document) error
	failed bool         // one of the documents
	source *sourceCheck // nil for CheckDocument
}

func newExamination(o Options, report func(*Document) error) *examination {
	o.Sample, o.MaxDocuments = cmp.Or(o.Sample, 20), cmp.Or(max(o.MaxDocuments, 0), 1000)
	o.MaxPackage, o.Timeout = cmp.Or(o.MaxPackage, 64<<20), cmp.Or(max(o.Timeout, 0), time.Minute)
	return &examination{o: o, asked: make(map[string]time.Time), left: o.MaxDocuments, seen: make(map[string]*Document), report: report}
}

// begin counts a document that no other one listed, and remembers it.
func (x *examination) begin(ctx context.Context, in input, d *Document) {
	x.left--
	x.remember(ctx, in, d)
}

// remember makes a document known under its URLs.
func (x *examination) remember(ctx context.Context, in input, d *Document) {
	for _, u := range []string{d.requested, d.final} {
		if u != "" {
			x.seen[canonical(u)] = d
		}
	}
	if x.source != nil {
		x.source.served(ctx, in, d)
	}
}
