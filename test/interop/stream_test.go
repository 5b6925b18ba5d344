package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

var streamRows = []row{
	{"curl and nginx with its defaults", "the stream of `rshub` through an nginx that has only `proxy_pass`: an event comes at once, the connection outlives 70 seconds without one, and after a restart of the hub `Last-Event-ID` goes on where it was", streamThroughNginx},
}

// idle is longer than the time after which nginx by default gives up a server that says nothing.
const idle = 70 * time.Second

func streamThroughNginx(t *testing.T, c *checks) string {
	version := nginx.version(t)
	needs(t, "curl")
	addr := ports.Addr()
	h := startHub(t, "http://"+addr+"/")
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("    %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	name := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(name, fmt.Appendf(nil, "pid %s/pid;\nevents {}\nhttp {\n    access_log off;\n%s    server {\n        listen %s;\n        location / {\n            proxy_pass http://%s;\n        }\n    }\n}\n", dir, temp, addr, h.addr), 0o600))
	start(t, dir, nil, "nginx", "-p", dir, "-c", name, "-e", "stderr", "-g", "daemon off; user "+whoami()+";").listens(addr)

	var next intervals
	publish := func() (id string) {
		t.Helper()
		a := h.publish(t, http.DefaultClient, "http://"+h.addr+"/", bytes.NewReader(next.next(1, 10))).want(t, http.StatusOK)
		var r struct{ ID string }
		must(t, json.Unmarshal(a.body, &r))
		return r.ID
	}
	at := h.url + "?hub.topic=" + url.QueryEscape(topic)
	read := func(args ...string) *process {
		t.Helper()
		return start(t, dir, nil, "curl", append([]string{"-sSN", "-H", "Accept: text/event-stream"}, args...)...)
	}
	first := publish()
	reader := read(at + "&after=earliest")
	reader.says(first)
	began := time.Now()
	reader.says(publish())
	c.ok("an event comes after %v", time.Since(began).Round(time.Millisecond))
	time.Sleep(idle)
	select {
	case <-reader.done:
		t.Fatalf("curl ended while nothing was published:\n%s", reader.out)
	default:
	}
	reader.says(publish())
	c.ok("the connection outlives %v without an event", idle)

	h.stop()
	<-reader.done
	ids := regexp.MustCompile(`(?m)^id: (.+)$`).FindAllStringSubmatch(reader.out.String(), -1)
	h.start(t)
	missed := publish()
	again := read("-H", "Last-Event-ID: "+ids[len(ids)-1][1], at)
	again.says(missed)
	again.says(publish())
	if n := strings.Count(again.out.String(), "event: notification"); n != 2 || strings.Contains(again.out.String(), "event: gap") {
		t.Fatalf("after the restart came %d notifications, want 2:\n%s", n, again.out)
	}
	c.ok("after a restart of the hub, curl goes on with Last-Event-ID, and misses and repeats nothing")
	return version
}
