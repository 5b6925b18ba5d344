package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
)

// soon is how long a hub on a busy machine may take to refuse a request that arrived at once.
const soon = 30 * time.Second

// reply is what came back of bytes that were sent.
type reply struct {
	status int // 0: nothing that is HTTP
	slug   string
	all    string
}

// exchange sends bytes as they are, and reads the answer and what follows it. It stops sending when the
// hub accepts no more bytes. After a request that is cut off, it closes its side. Otherwise the
// connection stays open, so that a request which is hidden in another one would be carried out if the
// hub mistook it for a request. If the connection was closed before the answer could be read, exchange
// sends the bytes again.
func exchange(addr, request string, cut bool) (r reply, err error) {
	for range 5 {
		if r, err = exchangeOnce(addr, request, cut); r.status != 0 || !errors.Is(err, syscall.ECONNRESET) {
			break
		}
	}
	return r, ignoreReset(err)
}

func exchangeOnce(addr, request string, cut bool) (reply, error) {
	conn, err := dial(addr)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(soon))
	go func() {
		_, _ = io.WriteString(conn, request)
		if half, ok := conn.(*net.TCPConn); ok && cut {
			_ = half.CloseWrite()
		}
	}()
	var all strings.Builder
	in := bufio.NewReader(io.TeeReader(conn, &all))
	resp, err := http.ReadResponse(in, nil)
	if errors.Is(err, syscall.ECONNRESET) {
		return reply{}, err
	}
	if err != nil {
		return reply{}, nil // closed without an answer
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	if !resp.Close { // it says nothing more, or does so at once
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	}
	if _, err = io.Copy(io.Discard, in); !resp.Close && errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	r := reply{status: resp.StatusCode, all: all.String()}
	if _, rest, ok := strings.Cut(r.all, "problems.md#"); ok {
		r.slug, _, _ = strings.Cut(rest, `"`)
	}
	return r, ignoreReset(err)
}

// ignoreReset drops the error of a connection that was closed while there was
// something left to send.
func ignoreReset(err error) error {
	if err != nil && strings.Contains(err.Error(), "connection reset") {
		return nil
	}
	return err
}

// hostile is a hub that strangers send to, and the topic that they name.
type hostile struct {
	*hub
	topic string
}

func newHostile(t *testing.T, args ...string) *hostile {
	h := startHub(t, args...)
	return &hostile{h, "http://" + h.addr + "/topic"}
}

// head is that of a publish, with more lines or others in the place of those of
// the same name.
func (h *hostile) head(lines ...string) string {
	all := []string{
		"Host: " + h.addr, "Content-Type: application/xml", "Accept: application/json",
		fmt.Sprintf(`Link: <%s>; rel="self", <%s>; rel="hub"`, h.topic, h.url()),
	}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		for i, other := range all[:4] {
			if strings.HasPrefix(other, name+":") {
				all[i] = "X-Nothing: x"
			}
		}
		all = append(all, line)
	}
	return "POST / HTTP/1.1\r\n" + strings.Join(all, "\r\n") + "\r\n"
}

// post is a publish of a body.
func (h *hostile) post(body string, lines ...string) string {
	return h.head(append(lines, fmt.Sprintf("Content-Length: %d", len(body)))...) + "\r\n" + body
}

// urlset is a notification with the attributes of its rs:md and its entries.
func urlset(md, entries string) string {
	return `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md capability="change-notification" ` + md + `/>` + entries + `</urlset>`
}

// entries is n of them, of which each holds something.
func entries(n int, with string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<url><loc>http://example.org/%d</loc>%s<rs:md change="updated" datetime="2026-01-01T00:00:01Z"/></url>`, i, with)
	}
	return b.String()
}

// in16 is a text in UTF-16, with a byte order mark.
func in16(s string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune("\ufeff" + s)) {
		b.WriteByte(byte(unit >> 8))
		b.WriteByte(byte(unit))
	}
	return b.String()
}

const interval = `from="2026-01-01T00:00:00Z" until="2026-01-01T00:00:05Z"`

// nothingStored checks that the journal is empty, and that honest publishers are
// served as ever.
func (h *hostile) nothingStored() {
	h.t.Helper()
	var topics struct {
		Items []any `json:"items"`
	}
	if h.api("/api/v1/topics", &topics); len(topics.Items) != 0 {
		h.t.Errorf("there are topics: %v", topics.Items)
	}
	h.accepted(h.topic, newSource(h.topic).next(0))
}

// Documents that are written to do harm are refused as documented, soon and in bounded memory. They
// leave nothing behind.
func TestHostileDocuments(t *testing.T) {
	h := newHostile(t)
	const mega = 1 << 20
	laughs := `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "lol">`
	for i := 1; i < 10; i++ {
		laughs += fmt.Sprintf(`<!ENTITY l%d "%s">`, i, strings.Repeat(fmt.Sprintf("&l%d;", i-1), 10))
	}
	xml := func(s string) string { return `<?xml version="1.0" encoding="UTF-8"?>` + s }
	for name, tc := range map[string]struct {
		body string
		slug string
	}{
		"billion laughs":           {laughs + `]>` + urlset(interval, entries(1, "<x>&l9;</x>")), "document-type"},
		"external entity":          {`<!DOCTYPE u [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + urlset(interval, "&x;"), "document-type"},
		"entity that is not there": {urlset(interval, strings.Repeat("&x;", 100_000)), "not-well-formed"},
		"control character":        {urlset(interval, "<x>&#0;</x>"), "not-well-formed"},
		"depth":                    {urlset(interval, strings.Repeat("<x>", 2*mega)), "invalid-notification"},
		"depth, closed":            {urlset(interval, strings.Repeat("<x>", 100_000)+strings.Repeat("</x>", 100_000)), "invalid-notification"},
		"depth of namespaces":      {urlset(interval, strings.Repeat(`<x xmlns:a="http://a.example/">`, 100_000)), "invalid-notification"},
		"50,001 entries":           {urlset(interval, entries(50_001, "")), "too-many-entries"},
		"attributes":               {urlset(interval, "<url "+numbered(` a%d="x"`, 200_000)+"/>"), "invalid-notification"},
		"declared prefixes":        {urlset(interval, "<url "+numbered(` xmlns:a%d="http://a.example/"`, 100_000)+"/>"), "invalid-notification"},
		"a long name":              {urlset(interval, "<"+strings.Repeat("x", 8*mega)+"/>"), "invalid-notification"},
		"a long value":             {urlset(interval, `<url a="`+strings.Repeat("x", 16*mega)+`"/>`), "invalid-notification"},
		"a long location":          {urlset(interval, `<url><loc>http://e.example/`+strings.Repeat("x", 16*mega)+`</loc></url>`), "invalid-notification"},
		"a comment without end":    {urlset(interval, "<!--"+strings.Repeat("-x", 8*mega)), "not-well-formed"},
		"CDATA without end":        {urlset(interval, "<![CDATA["+strings.Repeat("]]", 8*mega)), "not-well-formed"},
		"an open tag":              {urlset(interval, strings.Repeat("<", 8*mega)), "not-well-formed"},
		"no end":                   {strings.TrimSuffix(urlset(interval, entries(1, "")), "</urlset>"), "not-well-formed"},
		"empty":                    {"", "not-well-formed"},
		"NUL":                      {strings.Repeat("\x00", mega), "charset"},
		"invalid UTF-8":            {xml(urlset(interval, "<x>\xff\xfe</x>")), "charset"},
		"overlong UTF-8":           {xml(urlset(interval, "<x>\xc0\xbc</x>")), "charset"},
		"half a character":         {xml(urlset(interval, "<x>\xe2\x82</x>")), "charset"},
		"a surrogate":              {xml(urlset(interval, "<x>\xed\xa0\x80</x>")), "charset"},
		"UTF-16":                   {in16(`<?xml version="1.0" encoding="UTF-16"?>` + urlset(interval, entries(1, ""))), "charset"},
		"declared Latin-1":         {`<?xml version="1.0" encoding="ISO-8859-1"?>` + urlset(interval, entries(1, "")), "charset"},
		"declared UTF-7":           {`<?xml version="1.0" encoding="UTF-7"?>` + urlset(interval, entries(1, "")), "charset"},
		"the year 2099":            {urlset(`from="2026-01-01T00:00:00Z" until="2099-01-01T00:00:00Z"`, entries(1, "")), "invalid-notification"},
		"the year 9999":            {urlset(`from="9999-12-31T23:59:59Z" until="9999-12-31T23:59:59.999999999Z"`, ""), "invalid-notification"},
		"backwards":                {urlset(`from="2026-01-01T00:00:05Z" until="2026-01-01T00:00:00Z"`, entries(1, "")), "invalid-notification"},
		"no interval":              {urlset("", entries(1, "")), "invalid-notification"},
		"a datetime of a megabyte": {urlset(`from="2026-01-01T00:00:00.`+strings.Repeat("0", mega)+`Z" until="2026-01-01T00:00:05Z"`, ""), "invalid-notification"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			got, err := exchange(h.addr, h.post(tc.body, "Connection: close"), false)
			if err != nil || got.slug != tc.slug {
				t.Errorf("%v, answered %d %q, want %q\n%.500s", err, got.status, got.slug, tc.slug, got.all)
			}
			t.Logf("%d bytes in %v", len(tc.body), time.Since(start).Round(time.Millisecond))
		})
	}
	h.nothingStored()
	peak := h.peakMemory()
	t.Logf("peak resident memory %d MiB", peak>>20)
	if peak > 512*mega {
		t.Errorf("the hub took %d MiB", peak>>20)
	}
}

// numbered repeats a format with the numbers below n.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Requests that contradict themselves are refused, and no request that is hidden in them is carried
// out.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	h := newHostile(t, "--max-body=1MiB", "--publish-auth=open,token")
	good := urlset(interval, entries(1, ""))
	length := fmt.Sprintf("Content-Length: %d", len(good))
	chunked := func(first string) string {
		return fmt.Sprintf("%s\r\n%x\r\n%s\r\n0\r\n\r\n", first, len(good), good)
	}
	const te = "Transfer-Encoding: chunked"
	for name, tc := range map[string]struct {
		request string
		want    string // statuses that it may have
		cut     bool
	}{
		"length that is longer":    {h.head("Content-Length: 100000") + "\r\n" + good, "400", true},
		"length that is shorter":   {h.head("Content-Length: 10") + "\r\n" + good, "400", false},
		"length over the limit":    {h.head("Content-Length: 9999999999") + "\r\n" + good, "413", false},
		"length over all numbers":  {h.head("Content-Length: 99999999999999999999999") + "\r\n" + good, "400", false},
		"negative length":          {h.head("Content-Length: -1") + "\r\n" + good, "400", false},
		"length with a sign":       {h.head("Content-Length: +5") + "\r\n" + good, "400", false},
		"list of lengths":          {h.head("Content-Length: 5, 6") + "\r\n" + good, "400", false},
		"two lengths":              {h.head(length, "Content-Length: 5") + "\r\n" + good, "400", false},
		"no length":                {h.head() + "\r\n" + good, "400", false},
		"chunk without end":        {h.head(te) + "\r\n5\r\nab", "400", true},
		"chunk of no number":       {h.head(te) + "\r\nzz\r\nab\r\n0\r\n\r\n", "400", false},
		"chunk of a huge number":   {h.head(te) + "\r\nffffffffffffffff\r\nab\r\n", "400", true},
		"chunk over all numbers":   {h.head(te) + "\r\n" + strings.Repeat("f", 100_000) + "\r\nab\r\n", "400", false},
		"negative chunk":           {h.head(te) + "\r\n-1\r\nab\r\n0\r\n\r\n", "400", false},
		"chunk without its line":   {h.head(te) + "\r\n2\r\nabcd\r\n0\r\n\r\n", "400", false},
		"flood of extensions":      {h.head(te) + "\r\n" + strings.Repeat("1;"+strings.Repeat("x", 4000)+"\r\n<\r\n", 200), "400", true},
		"flood of small chunks":    {h.head(te) + "\r\n" + strings.Repeat("1\r\n<\r\n", 400_000), "400 413", true},
		"flood of trailers":        {h.head(te) + "\r\n1\r\n<\r\n0\r\n" + strings.Repeat("X: y\r\n", 300_000) + "\r\n", "400", true},
		"chunked and something":    {chunked(h.head("Transfer-Encoding: gzip, chunked")), "501", false},
		"nearly chunked":           {chunked(h.head("Transfer-Encoding: xchunked")), "501", false},
		"chunked twice":            {chunked(h.head(te, te)), "400 501", false},
		"chunked, 1.0":             {strings.Replace(chunked(h.head(te)), "HTTP/1.1", "HTTP/1.0", 1), "400", false},
		"chunked, 1.0, kept alive": {strings.Replace(h.head(te, "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1) + "\r\n" + h.post(good), "400", false},
		"name with a space":        {chunked(h.head("Transfer-Encoding : chunked")), "400", false},
		"folded line":              {chunked(h.head("X: y\r\n Transfer-Encoding: chunked")), "400", false},
		"CR in a line":             {h.head("X: a\rTransfer-Encoding: chunked", length) + "\r\n" + good, "400", false},
		"NUL in a line":            {h.head("X: a\x00b", length) + "\r\n" + good, "400", false},
		"no Host":                  {strings.Replace(h.post(good), "Host:", "Guest:", 1), "400", false},
		"two Hosts":                {h.post(good, "Host: a", "Host: b"), "400", false},
		"two media types":          {h.post(good, "Content-Type: application/xml", "Content-Type: application/xml"), "415", false},
		"gzip":                     {h.post(good, "Content-Encoding: gzip"), "415", false},
		"two topics":               {h.post(good, `Link: <http://a.example/>; rel="self", <http://b.example/>; rel="self"`), "400", false},
		"two credentials":          {h.post(good, "Authorization: Bearer a", "Authorization: Bearer b"), "401", false},
		"two signatures":           {h.post(good, "X-Hub-Signature: sha256=00", "X-Hub-Signature: sha256=01"), "401", false},
		"a huge header":            {h.post(good, "X: "+strings.Repeat("x", 1<<20)), "431", false},
		"very many headers":        {h.post(good, strings.TrimSuffix(strings.Repeat("X: y\r\n", 100_000), "\r\n")), "431", false},
		"huge Link":                {h.post(good, "Link: "+strings.Repeat(`<http://a.example/>; rel="x", `, 2000)), "400", false},
		"Link of commas":           {h.post(good, "Link: "+strings.Repeat(",", 60_000)), "400", false},
		"Link of open quotes":      {h.post(good, "Link: "+strings.Repeat(`<a>;rel="`, 6000)), "400", false},
		"Link of parameters":       {h.post(good, "Link: <http://a.example/>"+strings.Repeat(";a", 30_000)), "400", false},
		"very many relations":      {h.post(good, `Link: <http://a.example/>; rel="`+strings.Repeat("x ", 30_000)+`"`), "400", false},
		"Accept of ranges":         {h.post("<", "Accept: "+strings.Repeat("a/b;q=0.1,", 6000)), "400", false},
		"HTTP/2":                   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 10), "404", false},
		"HTTP/3.7":                 {strings.Replace(h.post(good), "HTTP/1.1", "HTTP/3.7", 1), "505", false},
		"no HTTP":                  {strings.Repeat("\x16\x03\x01\x02\x00\x01", 1000), "400", false},
		"CONNECT":                  {"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n", "404 405", false},
		"URL of another":           {strings.Replace(h.post(good), "POST /", "POST http://169.254.169.254/latest", 1), "404", false},
		"length and chunked":       {h.head("Content-Length: 5", te) + "\r\n0\r\n\r\n" + h.post(good), "400", false},
		"chunked and length":       {h.head(te, "Content-Length: 5") + "\r\n1\r\n<\r\n0\r\n\r\n" + h.post(good), "400", false},
		"length 0 and chunked":     {h.head("Content-Length: 0", te) + "\r\n0\r\n\r\n" + h.post(good), "400", false},
		"chunked, then another":    {h.head(te) + "\r\n1\r\n<\r\n0\r\n\r\n" + h.post(good), "400", false},
		"refused length, another":  {h.head("Content-Length: 9999999999") + "\r\n" + h.post(good), "413", false},
		"broken chunk, another":    {h.head(te) + "\r\n1\r\n<<\r\n0\r\n\r\n" + h.post(good), "400", false},
		"GET with a body, another": {"GET / HTTP/1.1\r\nHost: h\r\n" + te + "\r\n\r\n0\r\n\r\n" + h.post(good), "200", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := exchange(h.addr, tc.request, tc.cut)
			if err != nil || !slices.Contains(strings.Fields(tc.want), fmt.Sprint(got.status)) {
				t.Errorf("%v, answered %d, want %s\n%.300s", err, got.status, tc.want, got.all)
			}
			for _, line := range []string{"HTTP/1.1 200 OK", "HTTP/1.0 200 OK"} {
				if strings.Contains(got.all, line) && !strings.HasPrefix(tc.request, "GET") {
					t.Errorf("something was taken: %.500s", got.all)
				}
			}
		})
	}
	h.nothingStored()
}

// from dials from one of the many addresses of this machine.
func from(local, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	return d.DialContext(context.Background(), "tcp", addr)
}

// A thousand connections that send slowly or nothing delay no honest publisher, and are closed after
// their time. Connections without a request may even come from the address of an honest publisher.
func TestThousandSlowPublishers(t *testing.T) {
	for name, tc := range map[string]struct{ addresses, kinds int }{"from elsewhere": {5, 4}, "from the same address": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			conns := h.thousand(tc.addresses, tc.kinds)
			src, slowest := newSource(h.topic), time.Duration(0)
			for range 20 {
				client.CloseIdleConnections() // each has to be let in
				start := time.Now()
				h.accepted(h.topic, src.next(0))
				slowest = max(slowest, time.Since(start))
			}
			var ended sync.WaitGroup
			var gone atomic.Int64
			for _, conn := range conns {
				ended.Go(func() {
					defer gone.Add(1)
					_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
					if _, err := io.Copy(io.Discard, conn); ignoreReset(err) != nil {
						t.Errorf("a connection is still open: %v", err)
					}
				})
			}
			if each := 256; len(conns)/tc.addresses > each { // long before their time is up
				eventually(t, 8*time.Second, func() error {
					if n := int(gone.Load()); n < len(conns)-each {
						return fmt.Errorf("%d connections of %d were closed", n, len(conns))
					}
					return nil
				})
			}
			ended.Wait()
			peak := h.peakMemory()
			t.Logf("with %d connections from %d addresses the slowest of 20 publishes took %v; peak resident memory %d MiB", len(conns), tc.addresses, slowest, peak>>20)
			if peak > 512<<20 {
				t.Errorf("the hub took %d MiB", peak>>20)
			}
			if slowest > soon {
				t.Errorf("an honest publish took %v", slowest)
			}
		})
	}
}

// thousand opens connections from as many addresses, 127.0.0.2 the first of them
// unless there is one, of the first kinds of these: one sends nothing, one half a
// header, one half a body, one a body drop by drop.
func (h *hostile) thousand(addresses, kinds int) []net.Conn {
	h.t.Helper()
	all := make([]net.Conn, 0, 1000)
	big := h.head("Content-Length: 50000000") + "\r\n"
	stop := make(chan struct{})
	h.t.Cleanup(func() { close(stop) })
	for i := range cap(all) {
		local := "127.0.0.1" // where the honest one is
		if addresses > 1 {
			local = fmt.Sprintf("127.0.0.%d", 2+i%addresses)
		}
		conn, err := from(local, h.addr)
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { _ = conn.Close() })
		all = append(all, conn)
		switch i / addresses % kinds {
		case 1:
			_, _ = io.WriteString(conn, big[:len(big)/2])
		case 2:
			_, _ = io.WriteString(conn, big+strings.Repeat("<", 60_000))
		case 3:
			go func() {
				_, err := io.WriteString(conn, big)
				for err == nil {
					select {
					case <-time.After(time.Second):
						_, err = io.WriteString(conn, "<")
					case <-stop:
						return
					}
				}
			}()
		}
	}
	return all
}
