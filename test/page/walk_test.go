package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// maxPage is how large a page may be, in bytes.
	maxPage = 300 << 10
	// anyStatus is for pages whose status a walk does not know.
	anyStatus = -1
	// perKind is how many pages of one kind a walk visits.
	perKind = 2
)

// widths are those of the windows: a phone, a small laptop and a large screen.
var widths = []int64{360, 1024, 1920}

// walk is a walk over all pages of a hub.
type walk struct {
	state string // the name of the hub's state
	h     *hub
	// says are words that pages must have, by kind. Each kind must exist.
	says map[string][]string
	// status is the status of pages that are unavailable now, by kind. Others have 200.
	status map[string]int
	// begin are paths that no link leads to.
	begin []string
	// each is how many pages of a kind are visited. 0: perKind.
	each int
	// login is done in a tab before the walk.
	login func(*tab)
	// within bounds the time of each answer. 0: the time is only logged.
	within time.Duration
	// base is where the pages are. Empty: the operator's pages. name returns the kind of a page, in
	// place of its path.
	base string
	name func(*url.URL) string
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// kind is what a page is about: its path without ids, with the names of its parameters.
func (w walk) kind(u *url.URL) string {
	if w.name != nil {
		return w.name(u)
	}
	k := anyID.ReplaceAllString(strings.TrimPrefix(u.Path, "/ui/"), "ID")
	if names := slices.Sorted(func(yield func(string) bool) {
		for name := range u.Query() {
			if !yield(name) {
				return
			}
		}
	}); len(names) > 0 {
		k += "?" + strings.Join(names, "&")
	}
	if k == "" {
		return "now"
	}
	return k
}

// do walks with and without JavaScript.
func (w walk) do(t *testing.T) {
	t.Helper()
	for name, script := range map[string]bool{"JavaScript": true, "no JavaScript": false} {
		t.Run(name, func(t *testing.T) {
			b := open(t, script)
			if w.login != nil {
				w.login(b)
			}
			read := map[string]string{}
			w.visitAll(t, b, read)
			for kind, words := range w.says {
				if read[kind] == "" {
					t.Errorf("no link leads to a page %s", kind)
				}
				for _, word := range words {
					if !strings.Contains(read[kind], word) {
						t.Errorf("no page %s says %q; it says\n%.1500s", kind, word, read[kind])
					}
				}
			}
		})
	}
}

// visitAll follows every link and adds the text of each page to read, by kind.
func (w walk) visitAll(t *testing.T, b *tab, read map[string]string) {
	t.Helper()
	base, err := url.Parse(cmp.Or(w.base, w.h.admin+"ui/"))
	if err != nil {
		t.Fatal(err)
	}
	visited := map[string]int{}
	seen := map[string]bool{}
	for left := append([]string{base.String()}, w.begin...); len(left) > 0; left = left[1:] {
		u, err := base.Parse(left[0])
		if err != nil {
			t.Errorf("a link leads to %q: %v", left[0], err)
			continue
		}
		u.Fragment = ""
		k := w.kind(u)
		if u.Host != base.Host || !strings.HasPrefix(u.Path, base.Path) || seen[u.String()] || visited[k] == cmp.Or(w.each, perKind) {
			continue
		}
		seen[u.String()] = true
		visited[k]++
		b.visit(u.String())
		read[k] += b.text() + "\n"
		left = append(left, ask[[]string](b, `[...document.querySelectorAll("a[href]:not([download])")].map((a) => a.href)`)...)
		name := fmt.Sprintf("%s-%d", k, visited[k])
		if b.script && w.login == nil { // the size and the time are the same without
			w.time(t, k, u.String())
		}
		for _, wrong := range judge(b) {
			t.Errorf("%s, %s: %s", name, strings.TrimPrefix(u.String(), w.h.admin), wrong)
		}
		if *pictures != "" && b.script {
			w.keep(t, b, name)
		}
	}
}

// time gets a page without a browser, and logs its size and how long its answer takes.
func (w walk) time(t *testing.T, kind, address string) {
	t.Helper()
	begin := time.Now()
	status, body := send(t, http.MethodGet, address, nil, nil)
	took := time.Since(begin)
	t.Logf("%-40s %d  %6.1f KB  %6.1f ms", kind, status, float64(len(body))/1024, float64(took.Microseconds())/1000)
	if want := cmp.Or(w.status[kind], http.StatusOK); want != anyStatus && status != want || len(body) > maxPage || w.within > 0 && took > w.within {
		t.Errorf("%s answers %d with %d bytes after %v, want %d", address, status, len(body), took, want)
	}
}

// judge returns what is wrong with the page in a tab.
func judge(b *tab) (wrong []string) {
	b.t.Helper()
	defer b.unfold()()
	for _, width := range widths {
		b.show(width, 900)
		for _, sentence := range ask[[]string](b, layout) {
			wrong = append(wrong, fmt.Sprintf("at %d px: %s", width, sentence))
		}
	}
	if ask[bool](b, "globalThis."+marker+" !== undefined") {
		wrong = append(wrong, "a script of a stranger has run")
	}
	for _, dark := range []bool{true, false} {
		if !b.script { // axe-core needs it
			break
		}
		b.dark(dark)
		for _, v := range axe(b) {
			wrong = append(wrong, fmt.Sprintf("axe, in the dark %v: %s", dark, v))
		}
	}
	return append(wrong, b.troubles()...)
}

// keep writes pictures of the page in a tab.
func (w walk) keep(t *testing.T, b *tab, name string) {
	t.Helper()
	dir := filepath.Join(*pictures, w.state)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	name = regexp.MustCompile(`[^a-zA-Z0-9-]+`).ReplaceAllString(name, "_")
	name = name[max(0, len(name)-80):]
	for _, width := range widths {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", name, width)), b.picture(width), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// layout finds elements that are wider than the window or than their box, and cells that are too low.
const layout = `(() => {
  const wrong = [], root = document.documentElement, width = root.clientWidth, phone = matchMedia("(max-width: 40rem)").matches;
  if (root.scrollWidth > width) wrong.push("the page scrolls sideways: it is " + root.scrollWidth + " px wide");
  const name = (e) => "<" + e.tagName.toLowerCase() + (e.id ? " id=" + e.id : "") + (e.className.length ? " class=" + e.className : "") + "> " + e.textContent.trim().slice(0, 60);
  const scrolls = (e) => e && (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  for (const e of document.body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (!box.width || e.closest(".hidden, .skip, svg, option") || phone && e.closest(".cards thead")) continue;
    if (!scrolls(e.parentElement) && (box.right > width + 1 || box.left < -1)) wrong.push(name(e) + " leaves the window");
    if (e.matches("td") && e.scrollHeight > e.clientHeight + 1) wrong.push(name(e) + " is " + e.scrollHeight + " px high in a box of " + e.clientHeight);
    if (style.overflowX === "visible" && style.display !== "inline" && e.clientWidth && e.scrollWidth > e.clientWidth + 1) wrong.push(name(e) + " is " + e.scrollWidth + " px wide in a box of " + e.clientWidth);
  }
  return wrong.slice(0, 5);
})()`

// axeSource is the script of axe-core, in the version of testdata/npm.
var axeSource = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(built, "npm")
	if err := os.CopyFS(dir, os.DirFS("testdata/npm")); err != nil {
		return "", err
	}
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	return string(script), err
})

// axe returns what axe-core finds on the page in a tab that is serious or critical.
func axe(b *tab) []string {
	b.t.Helper()
	script, err := axeSource()
	b.must(err)
	if !ask[bool](b, "typeof axe === 'object'") {
		ask[any](b, script+"; null")
	}
	return ask[[]string](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + " (" + v.impact + "): " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message || "")).join(" | ")))`)
}
