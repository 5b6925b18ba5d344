package interop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// The web servers stand in front with the configuration that the documents recommend: the test
// reads it from there, and replaces only addresses, names and certificates.
var proxyRows = func() []row {
	var all []row
	for _, p := range []proxy{nginx, caddy, haproxy} {
		all = append(all,
			row{p.name + " before rshub", hubRow, p.beforeHub},
			row{p.name + " before rspub", sourceRow, p.beforeSource},
			row{p.name + " before rssub", callbackRow, p.beforeCallback})
	}
	return all
}()

const (
	hubRow = "TLS ends there: subscribe with a secret, publish, 40 MB by length and chunked, 100-continue, 401, 409, 413 and 429 as the hub answers them, " +
		"requesters told apart and no address forged, the operator's listener out of reach, a browser's POST, connections kept, a hub that restarts, a callback that sends 103"
	sourceRow = "TLS ends there: `rssub sync` and `audit` of names with blanks, `%`, `+`, `;` and letters beyond ASCII, Range and If-Range, If-None-Match and If-Modified-Since, HEAD, gzip, " +
		"and the same header as from `rspub` itself"
	callbackRow = "TLS ends there: `rssub listen` is verified, and prints a small notification and one of 30 MB; strangers get 404"
)

// proxy is a web server that stands in front.
type proxy struct {
	name    string
	hubPage string // the document with the settings before a hub
	version func(t *testing.T) string
	// args writes the settings into dir, from a block of the documents, and returns the command.
	args func(t *testing.T, dir, block string, id *identity, port string) []string
	// late says that the proxy passes on an answer to half a request only when the rest of the
	// request has come.
	late bool
}

var nginx = proxy{
	name:    "nginx",
	hubPage: "deploy/systemd.md",
	version: func(t *testing.T) string {
		return between(t, needs(t, "nginx"), `nginx/([0-9.]+)`, "-v")
	},
	args: func(t *testing.T, dir, block string, id *identity, port string) []string {
		block = strings.ReplaceAll(block, "    listen [::]:443 ssl;\n", "")
		block = replace(t, block, "listen 443 ssl;", "listen 127.0.0.1:"+port+" ssl;")
		block = regexp.MustCompile(`(?m)^( *ssl_certificate +).*$`).ReplaceAllString(block, "${1}"+id.cert+";")
		block = regexp.MustCompile(`(?m)^( *ssl_certificate_key +).*$`).ReplaceAllString(block, "${1}"+id.key+";")
		block = regexp.MustCompile(`(?m)^( *server_name +).*$`).ReplaceAllString(block, "${1}localhost;")
		temp := ""
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			temp += fmt.Sprintf("    %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
		}
		name := filepath.Join(dir, "nginx.conf")
		must(t, os.WriteFile(name, []byte("worker_processes 1;\npid "+dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\n    access_log off;\n"+temp+block+"}\n"), 0o600))
		must(t, os.Chmod(dir, 0o755))
		return []string{"nginx", "-p", dir, "-c", name, "-e", "stderr", "-g", "daemon off; user " + whoami() + ";"}
	},
}

var caddy = proxy{
	name:    "Caddy",
	hubPage: "deploy/caddy.md",
	late:    true,
	version: func(t *testing.T) string {
		return between(t, needs(t, "caddy"), `v?([0-9]+\.[0-9.]+)`, "version")
	},
	args: func(t *testing.T, dir, block string, id *identity, port string) []string {
		block = regexp.MustCompile(`(?m)^\S*example\.org \{$`).ReplaceAllString(block, "https://localhost:"+port+" {\n\tbind 127.0.0.1\n\ttls "+id.cert+" "+id.key)
		if !strings.Contains(block, id.cert) {
			t.Fatalf("the block names no site: %s", block)
		}
		name := filepath.Join(dir, "Caddyfile")
		must(t, os.WriteFile(name, []byte("{\n\tadmin off\n\tauto_https off\n}\n"+block), 0o600))
		return []string{"caddy", "run", "--adapter", "caddyfile", "--config", name}
	},
}

var haproxy = proxy{
	name:    "HAProxy",
	hubPage: "operations.md",
	version: func(t *testing.T) string {
		return between(t, needs(t, "haproxy"), `version ([0-9.]+)`, "-v")
	},
	args: func(t *testing.T, dir, block string, id *identity, port string) []string {
		block = regexp.MustCompile(`bind :443 ssl crt \S+`).ReplaceAllString(block, "bind 127.0.0.1:"+port+" ssl crt "+id.certAndKey)
		if !strings.Contains(block, id.certAndKey) {
			t.Fatalf("the block listens nowhere: %s", block)
		}
		name := filepath.Join(dir, "haproxy.cfg")
		must(t, os.WriteFile(name, []byte("global\n    log stderr local0\n"+block), 0o600))
		return []string{"haproxy", "-db", "-f", name}
	},
}

func whoami() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return "nobody" // nginx ignores it
}

// between runs a program and returns what a pattern matches in its output.
func between(t *testing.T, program, pattern string, args ...string) string {
	t.Helper()
	out := runs(t, t.TempDir(), nil, program, args...)
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("%s printed %q, which has no version", program, out)
	}
	return m[1]
}

func replace(t *testing.T, s, old, by string) string {
	t.Helper()
	if !strings.Contains(s, old) {
		t.Fatalf("the block of the document has no %q:\n%s", old, s)
	}
	return strings.ReplaceAll(s, old, by)
}

// before starts the proxy with the block of a document that is meant for it, and returns host and
// port of the URL. addrs replace addresses of the block: old, new, old, new.
func (p proxy) before(t *testing.T, name string, id *identity, port string, addrs ...string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	must(t, err)
	m := regexp.MustCompile("(?s)```\n# " + p.name + "(?:: [^\n]*)?\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/%s has no block for %s", name, p.name)
	}
	block := string(m[1])
	for i := 0; i < len(addrs); i += 2 {
		if addrs[i+1] != "" {
			block = strings.ReplaceAll(block, addrs[i], addrs[i+1])
		}
	}
	dir := t.TempDir()
	args := p.args(t, dir, block, id, port)
	proc := start(t, dir, []string{"XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, args[0], args[1:]...)
	proc.listens("127.0.0.1:" + port)
}

// relay forwards connections to addr, and counts them.
type relay struct {
	addr string
	n    atomic.Int64
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{addr: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.n.Add(1)
			go pass(t.Context(), conn, to)
		}
	}()
	return r
}

// pass forwards bytes in both directions, and closes each direction when it ends.
func pass(ctx context.Context, conn net.Conn, to string) {
	defer func() { _ = conn.Close() }()
	other, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = other.Close() }()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(conn, other)
		closeWrite(conn)
		close(done)
	}()
	_, _ = io.Copy(other, conn)
	closeWrite(other)
	<-done
}

func closeWrite(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // the connection may be gone
	}
}

func (p proxy) beforeHub(t *testing.T, c *checks) string {
	version := p.version(t)
	id := newIdentity(t)
	_, port, _ := strings.Cut(ports.Addr(), ":")
	h := startHub(t, "https://localhost:"+port+"/", "--trusted-proxy", "127.0.0.1/32", "--require-https-for-secrets", "--ca-file", id.ca, "--subscribe-rate", "5/m", "--publish-rate", "0")
	relay := newRelay(t, h.addr)
	p.before(t, p.hubPage, id, port, "127.0.0.1:8080", relay.addr, "port 8081", "port "+h.admin[strings.Index(h.admin, ":")+1:])
	web := client(id, "127.0.0.1")
	eventually(t, func() error {
		a, err := try(t.Context(), web, http.MethodGet, h.url, nil)
		if err == nil && (a.status != http.StatusOK || !strings.Contains(string(a.body), h.url)) {
			err = fmt.Errorf("the page answers %d %q", a.status, a.body)
		}
		return err
	})
	c.ok("the hub's page")

	for _, path := range []string{"metrics", "ui/", "api/v1/topics", "readyz"} {
		ask(t, client(id, "127.0.0.4"), http.MethodGet, "http://"+h.admin+"/"+path, nil).want(t, http.StatusOK)
		ask(t, web, http.MethodGet, h.url+path, nil).want(t, http.StatusNotFound)
	}
	c.ok("the operator's page, API and metrics are not reachable through the proxy")

	r := newReceiver(t, id)
	r.early = true
	form := func(c *http.Client, to, callback string, header ...string) *answer {
		t.Helper()
		values := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}, "hub.secret": {"s3cret"}}
		return ask(t, c, http.MethodPost, to, strings.NewReader(values.Encode()), append(header, "Content-Type", "application/x-www-form-urlencoded")...)
	}
	form(web, "http://"+h.addr+"/", r.url).want(t, http.StatusForbidden)
	form(web, h.url, r.url).want(t, http.StatusAccepted)
	h.active(t, 1)
	c.ok("a secret is taken by https through the proxy, and refused by http beside it; the subscription is active")

	other := client(id, "127.0.0.2")
	for range 5 {
		form(other, h.url, r.url+"?other").want(t, http.StatusAccepted)
	}
	if form(other, h.url, r.url).want(t, http.StatusTooManyRequests).header.Get("Retry-After") == "" {
		t.Fatal("the 429 has no Retry-After")
	}
	form(other, h.url, r.url, "X-Forwarded-For", "192.0.2.7").want(t, http.StatusTooManyRequests)
	form(client(id, "127.0.0.3"), h.url, r.url+"?third").want(t, http.StatusAccepted)
	c.ok("requesters have limits of their own, 429 with Retry-After comes through, and a forged X-Forwarded-For does not help")

	form(web, h.url, r.url+"?browser", "Origin", strings.TrimSuffix(h.url, "/"), "Sec-Fetch-Site", "same-origin").want(t, http.StatusAccepted)
	form(web, h.url, r.url, "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site").want(t, http.StatusForbidden)
	c.ok("a browser's POST from the hub's own page is taken, one from elsewhere refused")

	p.publishes(t, c, h, id, web, r)

	before := relay.n.Load()
	for range 50 {
		ask(t, web, http.MethodGet, h.url, nil).want(t, http.StatusOK)
	}
	if opened := relay.n.Load() - before; opened > 10 {
		t.Fatalf("50 requests opened %d connections to the hub", opened)
	}
	c.ok("connections to the hub are kept between requests")

	h.stop()
	eventually(t, func() error {
		a, err := try(t.Context(), web, http.MethodGet, h.url, nil)
		if err == nil && a.status != http.StatusBadGateway && a.status != http.StatusServiceUnavailable {
			err = fmt.Errorf("without a hub the proxy answers %d", a.status)
		}
		return err
	})
	h.start(t)
	eventually(t, func() error {
		a, err := try(t.Context(), web, http.MethodGet, h.url, nil)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("after the hub's restart the proxy answers %d", a.status)
		}
		return err
	})
	c.ok("the proxy answers 502 or 503 while the hub is away, and finds it again")
	return version
}

// publishes are the checks of publishing through the proxy.
func (p proxy) publishes(t *testing.T, c *checks, h *hub, id *identity, web *http.Client, r *receiver) {
	t.Helper()
	var next intervals
	body := next.next(2, 10)
	h.publish(t, web, h.url, bytes.NewReader(body)).want(t, http.StatusOK)
	r.delivered(t, body, "s3cret")
	c.ok("a publish is delivered with its bytes and the right signature, to a callback that sends 103 first")

	old := next.n - 1
	next.n = old + 5 // a gap
	a := h.publish(t, web, h.url, bytes.NewReader(next.next(1, 10)), "Accept", "application/problem+json").want(t, http.StatusConflict)
	var problem struct {
		Expected string `json:"expected_from"`
	}
	if json.Unmarshal(a.body, &problem) != nil || problem.Expected == "" {
		t.Fatalf("the 409 has %q", a.body)
	}
	c.ok("a 409 comes with its problem")
	next.n = old + 1

	body = next.next(40_000, 900)
	h.publish(t, web, h.url, bytes.NewReader(body)).want(t, http.StatusOK)
	r.delivered(t, body, "s3cret")
	c.ok("%d bytes by length", len(body))
	body = next.next(40_000, 900)
	h.publish(t, web, h.url, struct{ io.Reader }{bytes.NewReader(body)}).want(t, http.StatusOK)
	r.delivered(t, body, "s3cret")
	c.ok("%d bytes chunked", len(body))

	head := func(length int, token string, more ...string) string {
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/xml\r\nAuthorization: Bearer %s\r\nLink: <%s>; rel=\"self\", <%s>; rel=\"hub\"\r\nContent-Length: %d\r\n%s\r\n",
			strings.TrimSuffix(strings.TrimPrefix(h.url, "https://"), "/"), token, topic, h.url, length, strings.Join(more, ""))
	}
	status := func(conn *bufio.ReadWriter, status int) {
		t.Helper()
		for {
			resp, err := http.ReadResponse(conn.Reader, nil)
			must(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusContinue && status != resp.StatusCode {
				continue // the proxy's own, and the hub's
			}
			if resp.StatusCode != status {
				t.Fatalf("answered %s, want %d", resp.Status, status)
			}
			return
		}
	}
	raw := func(text string) *bufio.ReadWriter {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AddCert(id.authority)
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots}}
		conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(h.url, "https://"), "/"))
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		must(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(conn, text)
		must(t, err)
		return bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	}
	for _, refused := range []struct {
		length int
		token  string
		status int
	}{{40 << 20, "a wrong token that is long enough", http.StatusUnauthorized}, {60 << 20, token, http.StatusRequestEntityTooLarge}} {
		conn := raw(head(refused.length, refused.token))
		if p.late {
			go func() { // an error is the end of the connection
				_, _ = io.CopyN(conn, zeros{}, int64(refused.length))
				_ = conn.Flush()
			}()
		}
		status(conn, refused.status)
	}
	c.ok("401 and 413 come through for bodies of 40 and 60 MiB, before these are sent: %t", !p.late)
	body = next.next(3, 10)
	conn := raw(head(len(body), token, "Expect: 100-continue\r\n"))
	status(conn, http.StatusContinue)
	_, err := conn.Write(body)
	must(t, err)
	must(t, conn.Flush())
	status(conn, http.StatusOK)
	c.ok("100-continue")
}

func (p proxy) beforeSource(t *testing.T, c *checks) string {
	version := p.version(t)
	id := newIdentity(t)
	_, port, _ := strings.Cut(ports.Addr(), ":")
	host := "https://localhost:" + port
	files := map[string]string{
		"one.txt": "0123456789", "with spaces.txt": "2", "100%.txt": "3", "a+b;c=d&e.txt": "4", "ü ß.txt": "5", "a%2Fb.txt": "6", "folder/what?.txt": "7", "big.bin": strings.Repeat("0123456789abcdef", 1<<20),
	}
	s := startSource(t, host+"/books/", files)
	direct := "http://" + s.addr
	p.before(t, "publisher.md", id, port, "127.0.0.1:8090", s.addr)
	web := client(id, "127.0.0.1")
	lists(t, web, host+"/books/resourcelist.xml", "with%20spaces.txt", "big.bin")
	ask(t, web, http.MethodGet, host+"/.well-known/resourcesync", nil).want(t, http.StatusOK)
	c.ok("the Source Description and the Resource List")

	dir := t.TempDir()
	for _, what := range []string{"sync", "audit"} {
		runs(t, dir, id.trustsAuthority, command("rssub"), what, s.url, "--dir", "copy", "--allow-cidr", "127.0.0.0/8", "--map", host+"/books/data/=.")
		c.ok("rssub %s of %d files", what, len(files))
	}
	for name, content := range files {
		if b, err := os.ReadFile(filepath.Join(dir, "copy", name)); err == nil && string(b) != content {
			t.Fatalf("%s has %d bytes, want %d", name, len(b), len(content))
		}
	}

	one := "/books/data/one.txt"
	plain := ask(t, web, http.MethodGet, host+one, nil).want(t, http.StatusOK)
	etag, modified := plain.header.Get("ETag"), plain.header.Get("Last-Modified")
	a := ask(t, web, http.MethodGet, host+one, nil, "Range", "bytes=2-4", "If-Range", etag).want(t, http.StatusPartialContent)
	if string(a.body) != "234" || a.header.Get("Content-Range") != "bytes 2-4/10" {
		t.Fatalf("bytes 2-4 are %q, %v", a.body, a.header)
	}
	ask(t, web, http.MethodGet, host+one, nil, "Range", "bytes=2-4", "If-Range", `"another"`).want(t, http.StatusOK)
	ask(t, web, http.MethodGet, host+one, nil, "Range", "bytes=100-").want(t, http.StatusRequestedRangeNotSatisfiable)
	c.ok("Range and If-Range")
	for _, url := range []string{host + one, host + "/books/resourcelist.xml"} {
		a := ask(t, web, http.MethodHead, url, nil).want(t, http.StatusOK)
		ask(t, web, http.MethodGet, url, nil, "If-None-Match", a.header.Get("ETag")).want(t, http.StatusNotModified)
	}
	ask(t, web, http.MethodGet, host+one, nil, "If-Modified-Since", modified).want(t, http.StatusNotModified)
	c.ok("If-None-Match and If-Modified-Since")

	for _, path := range []string{one, "/books/resourcelist.xml", "/books/capabilitylist.xml", "/books/changes/", "/books/no-such-thing"} {
		for _, encoding := range []string{"gzip", "identity"} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				there, here := ask(t, web, method, host+path, nil, "Accept-Encoding", encoding), ask(t, web, method, direct+path, nil, "Accept-Encoding", encoding)
				for _, name := range []string{"Content-Type", "Content-Encoding", "Etag", "Last-Modified", "Link", "Vary", "Cache-Control", "Accept-Ranges", "X-Content-Type-Options", "Content-Security-Policy", "Content-Length"} {
					if fmt.Sprint(there.header[name]) != fmt.Sprint(here.header[name]) || there.status != here.status || !bytes.Equal(there.body, here.body) {
						t.Fatalf("%s %s with %s: the proxy has %d, %s: %q, and rspub itself %d, %q", method, path, encoding, there.status, name, there.header[name], here.status, here.header[name])
					}
				}
			}
		}
	}
	c.ok("statuses, header and bytes are those of rspub itself, with gzip and without, GET and HEAD")
	return version
}

func (p proxy) beforeCallback(t *testing.T, c *checks) string {
	version := p.version(t)
	id := newIdentity(t)
	_, port, _ := strings.Cut(ports.Addr(), ":")
	h := startHub(t, "", "--ca-file", id.ca)
	addr := ports.Addr()
	p.before(t, "subscriber.md", id, port, "127.0.0.1:8095", addr)
	callback := "https://localhost:" + port + "/websub/"
	dir := t.TempDir()
	sub := start(t, dir, nil, command("rssub"), "listen", "--topic", topic, "--hub", h.url, "--listen", addr, "--callback-url", callback, "--allow-cidr", "127.0.0.0/8", "--log-format", "json")
	h.active(t, 1)
	c.ok("the callback is verified")
	var next intervals
	for _, entries := range []int{2, 30_000} {
		body := next.next(entries, 900)
		h.publish(t, http.DefaultClient, h.url, bytes.NewReader(body)).want(t, http.StatusOK)
		last := fmt.Sprintf("http://localhost:8000/data/%d/", entries-1)
		sub.says(last)
		c.ok("a notification of %d bytes", len(body))
	}
	ask(t, client(id, "127.0.0.1"), http.MethodGet, callback+"guessed?hub.mode=subscribe&hub.topic="+topic+"&hub.challenge=x", nil).want(t, http.StatusNotFound)
	c.ok("a stranger gets 404")
	return version
}

// zeros reads as zeros without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
