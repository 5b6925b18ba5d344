package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// Spans are written as people write them.
func TestSpan(t *testing.T) {
	for text, want := range map[string]string{"90s": "1m30s", "30d": "30d", "72h": "3d", "off": "off", "10m": "10m", "2h": "2h", "0s": "0s", "25h": "25h"} {
		var s Span
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("%s is written %s: %v", text, s.String(), err)
		}
	}
	for _, text := range []string{"", "d", "1", "-1d", "1.5d", "99999999d"} {
		if err := new(Span).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// Ranges that may be called are written as those of rshub are.
func TestRanges(t *testing.T) {
	f := CallFlags{allow: []string{"10.0.0.7", "::ffff:192.168.0.0/112", "fd00::/8"}}
	got, err := f.Ranges()
	if err != nil || fmt.Sprint(got) != "[10.0.0.7/32 192.168.0.0/16 fd00::/8]" {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "x", "10.0.0.0/33", "169.254.0.0/16"} {
		if got, err := (&CallFlags{allow: []string{text}}).Ranges(); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// A server may send more than its answer. What net/http says of that is a line of the log in its form, and not text between
// lines of JSON.
func TestLogHasWhatNetHTTPSays(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokand \x1b[31mmore\n")
	}))
	t.Cleanup(server.Close)
	said, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := stdlog.Writer()
	t.Cleanup(func() {
		stdlog.SetFlags(stdlog.LstdFlags)
		stdlog.SetOutput(before)
		_ = stderr.Close()
		_ = said.Close()
	})
	if _, err := NewLog(Screen(stderr), "info", "json"); err != nil {
		t.Fatal(err)
	}
	var other bytes.Buffer
	if _, err := NewLog(&other, "info", "json"); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err := said.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var line struct{ Level, Logger, Msg, Event, Listener string }
	if err := json.NewDecoder(said).Decode(&line); err != nil || line.Level != "info" || line.Logger != "http" || line.Event != "http_error" || line.Listener != "none" || !strings.Contains(line.Msg, "and ") {
		t.Errorf("the log has %+v: %v", line, err)
	}
	if other.Len() > 0 {
		t.Errorf("a log that is no file has %s", &other)
	}
}
