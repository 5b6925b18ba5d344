package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// pwn is what a hostile server says wherever it can: sequences of ESC and of C1, as a
// character and as a byte that is no UTF-8, and controls of the direction of writing.
const pwn = "pwn\x1b]0;t\x07\x1b[2J\u009b31m\x9b31m\u202e\u2066\u061c\x7f"

// pwnJSON is the same within a JSON string, with lines that claim to be the command's.
const pwnJSON = `pwn\u001b]0;t\u0007` + "\u009b31m\x9b31m\u202e\u2066\x7f" + `\nFORGED line\r\nFORGED too`

// pwnXML is what of it XML may hold.
const pwnXML = "pwn&#x9b;31m\u009b31m\u202e\u2066&#x202e;&#10;FORGED line&#xa;FORGED too"

// spoken is what the hostile server answers, as it goes over the wire, to a request below
// the path of that name.
func spoken(mode, path, base string) string {
	answer := func(status, header, body string) string {
		return "HTTP/1.1 " + status + "\r\n" + header + fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	fields := ""
	for _, name := range []string{
		"id", "url", "topic", "callback", "state", "kind", "version", "hub_url", "media_type", "end_reason", "last_error", "what", "file", "detail", "node_id", "unowned",
	} {
		fields += `"` + name + `":"` + pwnJSON + `",`
	}
	object := "{" + fields + `"items":[{` + fields + `"seq":1}]}`
	const urlset = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	switch mode {
	case "status":
		return answer("404 "+pwn, "", "")
	case "malformed":
		return pwn + "\nFORGED line\r\n\r\n"
	case "redirect":
		return answer("302 Found", "Location: http://pwn\x1b[2J\u009b\x9b\u202e/\r\n", "")
	case "redirect-path":
		return answer("307 Temporary Redirect", "Location: "+base+"/status/"+pwn+"\r\n", "")
	case "header":
		return "HTTP/1.1 200 OK\r\n" + pwn + "\r\nFORGED line\r\n\r\n"
	case "html":
		return answer("503 Service Unavailable", "Content-Type: text/html\r\n", "<!doctype html>\n<html><style>p{}</style><title>"+pwn+"</title>\n<p>&#27;[2J&#155;31m&#8238;\nFORGED line</p></html>")
	case "text":
		return answer("403 Forbidden", "Content-Type: text/plain\r\n", pwn+"\nFORGED line\n")
	case "problem":
		return answer("409 Conflict", "Content-Type: application/problem+json\r\n", object)
	case "json":
		return answer("200 OK", "Content-Type: application/json\r\n", object)
	case "links":
		link := func(rel string) string { return "Link: <" + base + "/status/" + pwn + `>; rel="` + rel + "\"\r\n" }
		return answer("200 OK", "Content-Type: text/"+pwn+"\r\n"+link("hub")+link("self")+link("resourcesync"), "x")
	case "xml":
		if strings.Contains(path, "/r/") {
			return answer("200 OK", "Content-Type: text/plain\r\n", "x")
		}
		body := urlset + `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`
		for i, name := range []string{"pwn%1B%5B2J", "pwn%C2%9B31m", "pwn%9B31m", "pwn%E2%80%AE", "pwn%0AFORGED", "pwn\u202eraw", "pwn\u009braw"} {
			body += fmt.Sprintf(`<url><loc>%s/xml/r/%s</loc><rs:md length="%d" hash="md5:%s" type="%s"/></url>`, base, name, 1+i%2, pwnXML, pwnXML)
		}
		return answer("200 OK", "Content-Type: application/xml\r\n", body+"</urlset>")
	case "xml-names":
		return answer("200 OK", "Content-Type: application/xml\r\n", `<`+"pwn\u202e\u009b"+` a="`+pwnXML+`"/>`)
	case "xml-wrong":
		return answer("200 OK", "Content-Type: application/xml\r\n", urlset+`<rs:md capability="`+pwnXML+`" from="`+pwnXML+`"/><url><loc>`+pwnXML+`</loc><rs:md change="`+pwnXML+`"/></url></urlset>`)
	}
	return answer("404 Not Found", "", "")
}

// modes are those of spoken.
var modes = []string{
	"status", "malformed", "redirect", "redirect-path", "header", "html", "text", "problem", "json", "links", "xml", "xml-names", "xml-wrong",
}

// newForger is a server that says pwn, by plain TCP and, with certificates of such names,
// by TLS.
func newForger(t *testing.T) (plain, secure string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToValidUTF8(pwn, "") + "\nFORGED line"
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{name}},
		DNSNames: []string{"pwn\x1b[2J\x7f\nFORGED line"}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(scheme string, config *tls.Config) string {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		base := scheme + "://localhost:" + port // the certificate has no names of addresses to tell
		if config != nil {
			l = tls.NewListener(l, config)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer func() { _ = c.Close() }()
					_ = c.SetDeadline(time.Now().Add(time.Minute))
					r, err := http.ReadRequest(bufio.NewReader(c))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
					mode, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
					_, _ = io.WriteString(c, spoken(mode, r.URL.Path, base))
				}()
			}
		}()
		return base
	}
	return serve("http", nil), serve("https", &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
}

// shown judges what a command printed.
func shown(text string, asJSON bool) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("bytes that are no UTF-8")
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return fmt.Errorf("%U", r)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "FORGED") {
			return fmt.Errorf("a line that the server wrote")
		}
	}
	for d := json.NewDecoder(strings.NewReader(text)); asJSON; {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("no JSON: %w", err)
		}
	}
	return nil
}

// Nothing that a server says reaches the terminal of a person who runs one of the three
// commands in a form on which it acts, nor as a line of its own; JSON stays JSON.
func TestHostileServersDoNotReachTheTerminal(t *testing.T) {
	t.Parallel()
	plain, secure := newForger(t)
	empty := t.TempDir()
	const id = "01a1fde0-b7e1-783d-bab2-93400a88ebae"
	var mu sync.Mutex
	reached := map[string]bool{}
	said := func(of string, text string) {
		mu.Lock()
		defer mu.Unlock()
		reached[of] = reached[of] || strings.Contains(text, "pwn")
	}
	var all sync.WaitGroup // at once, since most of the time they wait
	for _, mode := range append([]string{"certificate"}, modes...) {
		dir := t.TempDir()
		all.Go(func() {
			at := plain + "/" + mode
			if mode == "certificate" {
				at = secure
			}
			runs := [][]string{
				{"rshub", "info"},
				{"rshub", "info", "--json"},
				{"rshub", "topic", "ls"},
				{"rshub", "topic", "ls", "--json"},
				{"rshub", "topic", "info", id},
				{"rshub", "topic", "rm", id, "--yes"},
				{"rshub", "sub", "ls"},
				{"rshub", "sub", "ls", "--json"},
				{"rshub", "sub", "info", id},
				{"rshub", "sub", "info", "abcd1234"},
				{"rshub", "notification", "info", id},
				{"rshub", "notification", "info", id, "--json"},
				{"rshub", "reload"},
				{"rshub", "reload", "--json"},
				{"rshub", "__complete", "topic", "info", "--admin-url=" + at, ""},
				{"rshub", "validate", at + "/doc.xml"},
				{"rshub", "validate", "--json", at + "/doc.xml"},
				{"rshub", "validate", "--follow", at + "/"},
				{"rspub", "check", at + "/"},
				{"rspub", "check", at + "/", "--json"},
				{"rspub", "publish", "--hub", at + "/", "--topic", at + "/t", "--from", "2026-01-01T00:00:00Z", "--updated", at + "/x"},
				{"rspub", "publish", "--json", "--hub", at + "/", "--topic", at + "/t", "--from", "2026-01-01T00:00:00Z", "--updated", at + "/x"},
				{"rspub", "serve", "--dir", empty, "--state-dir", filepath.Join(dir, "source"), "--listen", "127.0.0.1:0", "--hub", at + "/"},
				{"rssub", "sync", at + "/list.xml", "--dir", filepath.Join(dir, "copy")},
				{"rssub", "sync", at + "/list.xml", "--dir", filepath.Join(dir, "copy"), "--json"},
				{"rssub", "follow", at + "/list.xml", "--dir", filepath.Join(dir, "followed"), "--listen", "127.0.0.1:0", "--log-format", "console"},
				{"rssub", "listen", "--topic", at + "/", "--state-dir", filepath.Join(dir, "state"), "--listen", "127.0.0.1:0", "--log-format", "console"},
				{"rssub", "status", "--state-dir", filepath.Join(dir, "state")},
				{"rssub", "status", "--state-dir", filepath.Join(dir, "copy/.rssub"), "--json"},
			}
			if mode == "xml" { // else there is no copy
				runs = append(runs,
					[]string{"rssub", "audit", at + "/list.xml", "--dir", filepath.Join(dir, "copy")},
					[]string{"rssub", "audit", at + "/list.xml", "--dir", filepath.Join(dir, "copy"), "--json"},
					[]string{"rssub", "follow", at + "/list.xml", "--dir", filepath.Join(dir, "followed2"), "--listen", "127.0.0.1:0", "--json"})
			}
			for _, args := range runs {
				out, errs := runAgainst(t, at, args)
				said(args[0]+" "+args[1], out+errs)
				said(mode, out+errs)
				asJSON := strings.Contains(strings.Join(args, " "), "--json") && args[0] != "rshub" || args[0] == "rshub" && args[len(args)-1] == "--json"
				if err := shown(out, asJSON); err != nil {
					t.Errorf("%q: stdout has %v: %q", args, err, out)
				}
				if err := shown(errs, false); err != nil {
					t.Errorf("%q: stderr has %v: %q", args, err, errs)
				}
			}
		})
	}
	all.Wait()
	for _, of := range append([]string{"rshub topic", "rshub sub", "rshub validate", "rspub check", "rspub publish", "rspub serve", "rssub sync", "rssub audit", "rssub follow", "rssub listen"}, "certificate", "status", "malformed", "html", "text", "problem", "json", "xml", "xml-wrong") {
		if !reached[of] {
			t.Errorf("%s: nothing of what the server said was printed, so nothing was tested", of)
		}
	}
}

// overheard is what a command has said so far.
type overheard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *overheard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *overheard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// runAgainst runs a command. One that would run for ever gets a while to say something.
func runAgainst(t *testing.T, at string, args []string) (stdout, stderr string) {
	t.Helper()
	switch {
	case args[0] != "rshub":
		if args[1] != "status" {
			args = append(args[:len(args):len(args)], "--dev")
		}
	case args[1] == "validate":
		args = append(args[:len(args):len(args)], "--dev", "--pause", "0s")
	case args[1] != "__complete":
		args = append(args[:len(args):len(args)], "--admin-url", at)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command(args[0]), args[1:]...)
	var out, errs overheard
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return "", ""
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	if args[1] == "serve" || args[1] == "follow" || args[1] == "listen" {
		for i := 0; i < 20 && !strings.Contains(errs.String(), "pwn"); i++ {
			select {
			case <-ended:
			case <-time.After(50 * time.Millisecond):
			}
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	<-ended
	return out.String(), errs.String()
}
