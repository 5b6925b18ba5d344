package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The walks find each defect that they look for.
func TestJudge(t *testing.T) {
	pages := map[string]struct{ body, want string }{
		"/good":    {"<p>Hello", ""},
		"/wide":    {"<div style='width:2000px'>wide</div>", "scrolls sideways"},
		"/word":    {"<div style='width:100px'>" + strings.Repeat("word", 20) + "</div>", "px wide in a box of 100"},
		"/cell":    {"<table><td style='display:block;height:10px'><div style='height:50px'>high</div></table>", "px high in a box of 1"},
		"/run":     {"<script>" + marker + "=1</script>", "a script of a stranger has run"},
		"/dialog":  {"<script>alert(1)</script>", "a dialog opens"},
		"/error":   {"<script>throw new Error('x')</script>", "a script fails"},
		"/policy":  {"<img src=x onerror=alert(1)>", "policy: script-src-attr refused inline"},
		"/window":  {"<script>open('/good')</script>", "a window opens"},
		"/image":   {"<img src=/good>", "image-alt (critical)"},
		"/pale":    {"<p style='color:#ccc;background:#fff'>pale", "color-contrast (serious)"},
		"/console": {"<script>console.log('x')</script>", "the console says"},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/policy" {
			w.Header().Set("Content-Security-Policy", "script-src 'self'")
		}
		_, _ = w.Write([]byte("<!DOCTYPE html><html lang=en><title>A page</title><main><h1>A page</h1>" + pages[r.URL.Path].body + "</main>"))
	}))
	t.Cleanup(s.Close)
	b := open(t, true)
	for path, page := range pages {
		b.visit(s.URL + path)
		if wrong := strings.Join(judge(b), "; "); page.want == "" && wrong != "" || !strings.Contains(wrong, page.want) {
			t.Errorf("%s: %q, want %q", path, wrong, page.want)
		}
	}
}
