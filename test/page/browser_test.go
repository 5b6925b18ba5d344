package page

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a test waits for something that has to happen.
const patience = 2 * time.Minute

// The names of this machine in the browser: the hub's, and that of a stranger's site. No other name
// resolves.
const (
	hubName  = "hub.example"
	evilName = "evil.example"
)

// chromium is the browser of all tests, which starts with the first of them.
var chromium struct {
	sync.Once
	ctx    context.Context
	cancel []context.CancelFunc
	err    error
}

func startBrowser() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		chromium.err = fmt.Errorf("there is no Chromium on this machine; make page installs it")
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(filepath.Join(built, "chromium")), chromedp.Env("TMPDIR="+built), chromedp.Flag("no-proxy-server", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP "+hubName+" 127.0.0.1, MAP "+evilName+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Flag("hide-scrollbars", true),
		// So frames of another site stay in the process of the page, which reports what they show.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SitePerProcess,IsolateOrigins"), chromedp.Flag("disable-site-isolation-trials", true))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	chromium.cancel = append(chromium.cancel, cancel)
	chromium.ctx, cancel = chromedp.NewContext(allocator)
	chromium.cancel = append(chromium.cancel, cancel)
	chromium.err = within(chromium.ctx, func(ctx context.Context) error { return chromedp.Do(ctx) })
}

// within runs the first commands of a browser or a tab. Its context must live as long as the
// browser or the tab, so the limit is a separate timer.
func within(ctx context.Context, do func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("the browser does not answer after %v", patience)
	}
}

func closeBrowser() {
	for i := len(chromium.cancel) - 1; i >= 0; i-- {
		chromium.cancel[i]()
	}
}

// tab is a tab of the browser, with separate cookies. It records what must not happen.
type tab struct {
	t      *testing.T
	ctx    context.Context
	script bool // pages may run scripts

	mu      sync.Mutex
	trouble []string
}

// spy runs in every page before anything else. It reports what the policy of the page does not
// allow to run.
const spy = `document.addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " refused " + e.blockedURI + " " + e.sample));`

// open opens a tab that ends with the test.
func open(t *testing.T, script bool) *tab {
	t.Helper()
	chromium.Do(startBrowser)
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	b := &tab{t: t, script: script}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.heard))
	t.Cleanup(cancel)
	b.ctx = ctx
	b.must(within(ctx, func(ctx context.Context) error { return chromedp.Do(ctx) }))
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: spy})
	call(b, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorDeny})
	if !script {
		call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	}
	return b
}

// heard records dialogs, errors of scripts, and what the browser refused.
func (b *tab) heard(event any) {
	say := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.trouble = append(b.trouble, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		say("a dialog opens: %s", e.Message)
		go func() {
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	case *page.EventWindowOpen:
		say("a window opens: %s", e.URL)
		say("a download begins: %s", e.URL)
	case *runtime.EventExceptionThrown:
		say("a script fails: %s", e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if len(e.Args) > 0 {
			say("the console says: %s", e.Args[0].Value)
		}
	case *cdplog.EventEntryAdded:
		// An answer with an error status is no trouble: the walk checks the status.
		if e.Entry.Source != cdplog.EntrySourceNetwork && (e.Entry.Level == cdplog.EntryLevelError || e.Entry.Source == cdplog.EntrySourceSecurity) {
			say("the browser says: %s", e.Entry.Text)
		}
	}
}

// troubles returns what must not have happened since the last call.
func (b *tab) troubles() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.trouble
	b.trouble = nil
	return all
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// do runs steps in the tab.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	b.must(chromedp.Do(ctx, steps...))
}

// visit goes to a page and waits until it is there and the browser has finished loading. A page
// with an error is a page.
func (b *tab) visit(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		looks, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.readyState !== "complete" || !!document.querySelector("a.on")`))
		cancel()
		if err == nil && !looks { // an error: the page is just leaving
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s still looks on after %v: %v", url, patience, err)
		}
	}
}

// ask evaluates an expression in the tab, which works with and without scripts of the page.
func ask[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	b.must(err)
	return got
}

// show makes the window as wide and as high as given.
func (b *tab) show(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// dark shows pages in dark or light colors.
func (b *tab) dark(dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// text is the text of the page for a person who unfolds everything.
func (b *tab) text() string {
	b.t.Helper()
	return ask[string](b, textOf)
}

// textOf is one expression, so that no other page comes between its parts.
const textOf = `(() => {
  const folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((d) => d.open = true);
  const text = document.body.innerText;
  folded.forEach((d) => d.open = false);
  return text;
})()`

// unfold shows what is folded, and returns a function that folds it again.
func (b *tab) unfold() (fold func()) {
	b.t.Helper()
	ask[any](b, `globalThis.folded = [...document.querySelectorAll("details:not([open])")], folded.forEach((d) => d.open = true), null`)
	return func() { b.t.Helper(); ask[any](b, `folded.forEach((d) => d.open = false), null`) }
}

// maxHeight bounds the height of a picture, in pixels.
const maxHeight = 6000

// picture returns a picture of the whole page at a width, as PNG.
func (b *tab) picture(width int64) []byte {
	b.t.Helper()
	b.show(width, 900)
	b.show(width, min(maxHeight, ask[int64](b, "document.documentElement.scrollHeight")))
	return call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}).Data
}
