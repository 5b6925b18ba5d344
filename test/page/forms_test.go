package page

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// click clicks on an element, by its CSS selector. If the page replaces the element at this moment,
// as it does with figures, click looks for it again.
func (b *tab) click(selector string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector)))
		cancel()
		if err == nil || time.Now().After(deadline) || !strings.Contains(err.Error(), "Could not find node") {
			b.must(err)
			return
		}
	}
}

// await waits until the page in the tab has these words.
func (b *tab) await(h *hub, words string) {
	b.t.Helper()
	h.await(func() error {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](textOf)) // an error: the next page comes
		if err != nil || !strings.Contains(text, words) {
			return fmt.Errorf("the page does not say %q: %.1000s (%w)", words, text, err)
		}
		return nil
	})
}

// Without JavaScript a person logs in, pauses, resumes and ends a subscription, and logs out.
func TestForms(t *testing.T) {
	const token = "a token of sixteen characters"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHub(t, "--node-id=hub-1", "--admin-token-file", file)
	h.run()
	r := receive(t, "127.0.0.2")
	h.subscribe("https://library.example.org/articles/capabilitylist.xml", r.url+"/ok/mirror")
	b := open(t, false)
	b.visit(h.admin + "ui/subscriptions?state=active")
	b.await(h, "Token of the operator")
	b.do(chromedp.SendKeys(chromedp.ID("token"), "a wrong token of the hub"))
	b.click("form.login button")
	b.await(h, "That is not a token of this hub.")
	b.do(chromedp.SendKeys(chromedp.ID("token"), token))
	b.click("form.login button")
	b.await(h, "Log out")
	h.await(func() error {
		b.visit(h.admin + "ui/subscriptions?state=active")
		if !strings.Contains(b.text(), "/ok/mirror") {
			return fmt.Errorf("the subscription is not active yet")
		}
		return nil
	})
	b.click("tbody a")
	b.await(h, "No delivery failed.")
	b.click(`form[action$="/pause"] button`)
	b.await(h, "It gets nothing until it is resumed.")
	b.click(`form[action$="/resume"] button`)
	b.await(h, "It gets what waits for it, and everything new.")
	b.click("details:last-of-type summary")
	b.do(chromedp.SendKeys(chromedp.CSS(`form[action$="/end"] input`), "end"))
	b.click(`form[action$="/end"] button`)
	b.await(h, "It ended")
	b.click(`form[action$="/logout"] button`)
	b.await(h, "Token of the operator")
	if trouble := b.troubles(); len(trouble) > 0 {
		t.Error(trouble)
	}
}

// With JavaScript figures refresh themselves while the page stays, tables are sorted by mouse and
// by keyboard, and old figures are shown as old.
func TestScript(t *testing.T) {
	h := failing(t)
	b := open(t, true)
	b.visit(h.admin + "ui/")
	ask[any](b, "globalThis.same = true, null")
	r := receive(t, "127.0.0.6")
	h.subscribe("https://library.example.org/more/capabilitylist.xml", many(r.url+"/ok/mirror", 7)...)
	b.await(h, "active\n24")
	if !ask[bool](b, "globalThis.same === true") {
		t.Error("the page was loaded anew")
	}
	order := func() string {
		return ask[string](b, `[...document.querySelectorAll("#now-failing tbody tr")].map((r) => r.cells[0].innerText).join(" ")`)
	}
	b.click("#now-failing th")
	up := order()
	b.do(chromedp.Focus(chromedp.CSS("#now-failing th")), chromedp.KeyEvent("\r"))
	if down := order(); up == down || !strings.HasPrefix(up, "127.0.0.3") || !strings.HasPrefix(down, "127.0.0.5") {
		t.Errorf("sorted up it is %s, and down %s", up, down)
	}
	down := order()
	h.subscribe("https://library.example.org/more/capabilitylist.xml", r.url+"/ok/another")
	b.await(h, "active\n25")
	if got := order(); got != down || !ask[bool](b, `document.activeElement.matches("#now-failing th[aria-sort=descending]")`) {
		t.Errorf("after the figures were refreshed the order is %s, and was %s", got, down)
	}
	if trouble := b.troubles(); len(trouble) > 0 {
		t.Error(trouble)
	}
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.await(func() error {
		if !ask[bool](b, `document.body.classList.contains("stale")`) {
			return fmt.Errorf("the page does not say that its figures are old")
		}
		return nil
	})
}
