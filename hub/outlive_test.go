package hub_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A client may close its sending side after the request, and then reads the answer.
func TestHalfClosedClientsAreAnswered(t *testing.T) {
	source := newSource(t)
	hubURL, _ := realHub(t)
	topic, body := source.topic("a"), interval(1, 2, "a")
	source.set(func() { source.hub, source.served["/a/"] = hubURL, body })
	form := func(mode string) string {
		return url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.url": {topic}, "hub.callback": {source.URL + "/callback"}}.Encode()
	}
	const isForm = "Content-Type: application/x-www-form-urlencoded\r\n"
	for _, c := range []struct {
		header, body string
		want         int
	}{
		{fmt.Sprintf("Content-Type: application/xml\r\nLink: <%s>; rel=\"self\", <%s>; rel=\"hub\"\r\n", topic, hubURL), body, http.StatusOK},
		{isForm, form("subscribe"), http.StatusAccepted},
		{isForm, form("unsubscribe"), http.StatusAccepted},
		{isForm, form("publish"), http.StatusAccepted},
	} {
		status, text := halfClosed(t, hubURL, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", c.header, len(c.body), c.body))
		if status != c.want {
			t.Errorf("%s%s: %d %s", c.header, c.body, status, text)
		}
	}
}

// halfClosed sends a POST, closes the sending side and returns the answer.
func halfClosed(t *testing.T, hubURL, rest string) (int, string) {
	t.Helper()
	u, err := url.Parse(hubURL)
	if err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(c, strings.NewReader("POST "+u.Path+" HTTP/1.1\r\nHost: "+u.Host+"\r\n"+rest)); err != nil {
		t.Fatal(err)
	}
	sending, ok := c.(*net.TCPConn)
	if !ok {
		t.Fatalf("the connection is a %T", c)
	}
	if err := sending.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
