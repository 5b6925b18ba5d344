package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A 50 MB notification to 100 callbacks that read slowly arrives everywhere,
// with the bodies in the hub's memory bounded by the byte budget.
func TestLargeNotificationToSlowCallbacks(t *testing.T) {
	if testing.Short() {
		t.Skip("5 GB over loopback; not with -short")
	}
	const callbacks, hosts, budget = 100, 13, 64 << 20
	subscriber := newReceiver(t, hosts)
	subscriber.keepBodies = false
	var mu sync.Mutex
	arrived := map[string][sha256.Size]byte{}
	subscriber.onPost(func(_ http.ResponseWriter, r *http.Request) {
		digest := sha256.New()
		for {
			_, err := io.CopyN(digest, r.Body, 512<<10)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return // the machine was too busy for --timeout: the hub tries again
			}
			time.Sleep(20 * time.Millisecond) // some 25 MB/s
		}
		mu.Lock()
		arrived[r.URL.Path] = [sha256.Size]byte(digest.Sum(nil))
		mu.Unlock()
	})
	h := startHub(t, fmt.Sprintf("--max-inflight-bytes=%d", budget))
	topic := "http://" + h.addr + "/topic"
	for i := range callbacks {
		h.subscribe(topic, subscriber.url(i, fmt.Sprintf("/cb/%d", i))).want(t, http.StatusAccepted)
	}
	h.active(callbacks)

	body := largeNotification(50_000_000)
	h.accepted(topic, body)
	eventually(t, 5*time.Minute, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(arrived) != callbacks {
			return fmt.Errorf("arrived at %d of %d", len(arrived), callbacks)
		}
		return nil
	})
	published := sha256.Sum256(body)
	for path, got := range arrived {
		if got != published {
			t.Errorf("%s got other bytes than were published", path)
		}
	}
	// The budget for deliveries, the body while it is published and stored,
	// and the process itself with the buffers of 100 connections.
	peak := h.peakMemory()
	t.Logf("%d callbacks x %d MB: peak resident memory %d MiB with --max-inflight-bytes=%d MiB", callbacks, len(body)/1_000_000, peak>>20, budget>>20)
	if limit := int64(budget + 6*len(body)); peak > limit {
		t.Errorf("the hub took %d MiB, more than %d MiB", peak>>20, limit>>20)
	}
}

// largeNotification is one of about size bytes in 50,000 entries.
func largeNotification(size int) []byte {
	const entries = 50_000
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="%s" until="%s"/>
`, stamp(from), stamp(from.Add(time.Hour)))
	pad := strings.Repeat("p", max(0, size/entries-102))
	for i := range entries {
		fmt.Fprintf(&b, `<url><loc>https://example.org/%s/%d</loc><rs:md change="created" datetime="%s"/></url>`+"\n", pad, i, stamp(from))
	}
	b.WriteString("</urlset>\n")
	return b.Bytes()
}

func dial(addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 30 * time.Second}).DialContext(context.Background(), "tcp", addr)
}

// raw sends bytes to the hub as they are and returns the status line. The answer is
// lost where the hub closes the connection on what it did not read, and this machine
// is too busy to read the answer before: then it is tried again.
func (h *hub) raw(request string) (line string, err error) {
	for range 5 {
		if line, err = h.rawOnce(request); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			break
		}
	}
	return line, err
}

func (h *hub) rawOnce(request string) (string, error) {
	conn, err := dial(h.addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(conn, request) }() // it may be answered before all of it is sent
	return bufio.NewReader(conn).ReadString('\n')
}

// What a stranger can send wrong, over the wire.
func TestBadRequests(t *testing.T) {
	h := startHub(t, "--max-body=64KiB")
	topic := "http://" + h.addr + "/topic"
	link := fmt.Sprintf("Link: <%s>; rel=\"self\", <%s>; rel=\"hub\"\r\n", topic, h.url())
	xml := "Content-Type: application/xml\r\n"
	for name, tc := range map[string]struct {
		request string
		want    string
	}{
		"no length, endless": {"POST / HTTP/1.1\r\nHost: h\r\n" + xml + link + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("4000\r\n"+strings.Repeat("x", 0x4000)+"\r\n", 8), "413"},
		"length over limit":  {"POST / HTTP/1.1\r\nHost: h\r\n" + xml + link + "Content-Length: 999999999\r\n\r\n", "413"},
		"not XML":            {"POST / HTTP/1.1\r\nHost: h\r\n" + xml + link + "Content-Length: 3\r\n\r\n<a>", "400"},
		"no Link":            {"POST / HTTP/1.1\r\nHost: h\r\n" + xml + "Content-Length: 3\r\n\r\n<a>", "400"},
		"JSON":               {"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n" + link + "Content-Length: 2\r\n\r\n{}", "415"},
		"gzip":               {"POST / HTTP/1.1\r\nHost: h\r\n" + xml + "Content-Encoding: gzip\r\n" + link + "Content-Length: 2\r\n\r\n{}", "415"},
		"PUT":                {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "405"},
		"huge header":        {"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", "431"},
		"10,000 parameters":  {"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 40000\r\n\r\n" + strings.Repeat("a=b&", 10_000), "4"},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := h.raw(tc.request)
			if err != nil && line == "" {
				t.Fatalf("no answer: %v", err)
			}
			if !strings.HasPrefix(line, "HTTP/1.1 "+tc.want) {
				t.Errorf("answered %q, want %s", line, tc.want)
			}
		})
	}
	// And it still works.
	h.accepted(topic, newSource(topic).next(0))
}

// A client that sends its header drop by drop is cut off and holds nobody up.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	conns := make([]net.Conn, 50)
	for i := range conns {
		conn, err := dial(h.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost:")
		conns[i] = conn
	}
	topic := "http://" + h.addr + "/topic"
	h.accepted(topic, newSource(topic).next(0))
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(conn); err != nil {
			t.Fatalf("a connection that sent half a header for a minute is still open: %v", err)
		}
	}
}

// HUB-07: 199 bytes pass, 200 do not; bytes, not characters.
func TestSecretLength(t *testing.T) {
	subscriber := newReceiver(t, 1)
	h := startHub(t)
	topic := "http://" + h.addr + "/topic"
	for secret, want := range map[string]int{
		strings.Repeat("s", 199):      http.StatusAccepted,
		strings.Repeat("s", 200):      http.StatusBadRequest,
		strings.Repeat("é", 99) + "s": http.StatusAccepted,
		strings.Repeat("é", 100):      http.StatusBadRequest,
	} {
		a := h.subscribe(topic, subscriber.url(0, "/cb"), "hub.secret", secret).want(t, want)
		if want == http.StatusBadRequest && !strings.Contains(string(a.body), "199") {
			t.Errorf("the sentence does not give the limit: %q", a.body)
		}
	}
	h.subscribe(topic, subscriber.url(0, "/cb"), "hub.topic", "http://127.0.0.1/other").want(t, http.StatusBadRequest)
}
