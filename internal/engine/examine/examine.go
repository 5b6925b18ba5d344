package examine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// Level is how good or bad a finding is.
type Level string

// The levels.
const (
	Pass Level = "PASS" // as it should be
	Warn Level = "WARN" // some subscribers will have trouble with it
	Fail Level = "FAIL" // it breaks a rule, or something does not work
)

// Finding is one thing that was found.
type Finding struct {
	Level Level `json:"level"`
	// Check is what was looked at: discovery, document, resource, dump, topic or
	// hub.
	Check string `json:"check"`
	// URL is what the finding is about.
	URL string `json:"url"`
	// Rule is the ID of the rule, as docs/conformance.md lists them; empty where
	// there is none.
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message"`
}

// Doer makes one HTTP exchange and follows no redirect.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// Options configure an examination. Client is required.
type Options struct {
	// Client makes the requests.
	Client Doer
	// Sample is how many resources of each Resource List are fetched and compared;
	// zero: 20, negative: none.
	Sample int
	// MaxDocuments is how many documents are looked at; zero: 1,000.
	MaxDocuments int
	// MaxPackage is the largest package of a dump that is fetched, in bytes; zero:
	// 64 MiB, negative: none is.
	MaxPackage int64
	// Timeout bounds each exchange; zero: 1 min.
	Timeout time.Duration
	// Tell is told each finding. It is called by one goroutine.
	Tell func(Finding)
}

// Result counts what was found.
type Result struct {
	Passed, Warned, Failed int
	Documents, Resources   int // that were looked at
}

// Errors that say why there was nothing to look at. What Examine returns wraps
// one of them.
var (
	// ErrNoSource: the server answers, and knows nothing of ResourceSync there.
	ErrNoSource = errors.New("no ResourceSync Source was found")
	// ErrRefused: the server does not let us in, or its address is not called.
	ErrRefused = errors.New("refused")
	// ErrUnreachable: there is no answer.
	ErrUnreachable = errors.New("can't be reached")
)

// Examine looks at the Source that a URL leads to: that of its site, of its Source
// Description, of any document or of any resource. The error says that there was
// nothing to look at, or that ctx ended; what is wrong with the Source itself is
// in the findings.
func Examine(ctx context.Context, url string, o Options) (Result, error) {
	x := &examination{o: o.withDefaults(), seen: make(map[string]*document), hubs: make(map[string]bool), opened: make(map[string]bool), changedAt: make(map[string]time.Time), random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the same sample each time
	found, err := x.discover(ctx, url)
	if err != nil {
		return x.result, err
	}
	for _, d := range found {
		x.visit(ctx, d, nil)
	}
	x.fetchSamples(ctx)
	x.comparePush()
	if ctx.Err() != nil {
		return x.result, fmt.Errorf("stopped: %w", ctx.Err())
	}
	return x.result, nil
}

func (o Options) withDefaults() Options {
	if o.Sample == 0 {
		o.Sample = 20
	}
	if o.MaxDocuments <= 0 {
		o.MaxDocuments = 1000
	}
	if o.MaxPackage == 0 {
		o.MaxPackage = 64 << 20
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Tell == nil {
		o.Tell = func(Finding) {}
	}
	return o
}

// examination is one look at a Source.
type examination struct {
	o      Options
	result Result
	seen   map[string]*document
	random *rand.Rand

	hubs      map[string]bool // that were asked
	opened    map[string]bool // packages
	sampled   []*document     // lists with samples to be fetched
	changedAt map[string]time.Time
	pushes    bool   // a Capability List has a channel for changes
	changes   bool   // and one has a Change List
	skipped   int    // documents beyond MaxDocuments
	lists     string // a Capability List, for findings about all of it
	condition bool   // a conditional request was tried
}

// subject is what findings are about.
type subject struct {
	x     *examination
	check string
	url   string
}

func (x *examination) about(check, url string) subject { return subject{x, check, url} }

func (s subject) pass(rule, format string, args ...any) { s.tell(Pass, rule, format, args) }
func (s subject) warn(rule, format string, args ...any) { s.tell(Warn, rule, format, args) }
func (s subject) fail(rule, format string, args ...any) { s.tell(Fail, rule, format, args) }

func (s subject) tell(level Level, rule, format string, args []any) {
	switch level {
	case Pass:
		s.x.result.Passed++
	case Warn:
		s.x.result.Warned++
	case Fail:
		s.x.result.Failed++
	}
	s.x.o.Tell(Finding{Level: level, Check: s.check, URL: s.url, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

// count writes a number and what it is of.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func instant(t time.Time) string { return resourcesync.FormatDatetime(t) }

func isArchive(capability string) bool { return strings.HasSuffix(capability, "-archive") }
