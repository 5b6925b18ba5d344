package hub

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// The log says what the answer said, also when the media type is wrong. If a refusal has no place
// in the document, the log has none.
func TestLogOfRefusals(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	w := newWorld(t, func(o *Options) { o.Log = zap.New(core) })
	w.do(publish(doc(0, 1, "a"), with("Content-Type", "text/xml")))
	ahead := noon.Add(time.Hour).Format(time.RFC3339)
	w.do(publish(notification(`capability="change-notification" from="2026-01-01T11:00:00Z" until="` + ahead + `"`)))

	lines := logs.All()
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	if got := lines[0].ContextMap(); got["status"] != int64(415) || got["outcome"] != "media-type" || got["requester"] == "" {
		t.Errorf("a wrong media type: %v", got)
	}
	reason, _ := lines[1].ContextMap()["reason"].(string)
	if !strings.Contains(reason, "HUB-55") || strings.Contains(reason, "line 0") {
		t.Errorf("an until in the future: %s", reason)
	}
}

// A question names its topic in the log, unless no topic can have that URL: then it may be a password,
// or of any length.
func TestLogOfQuestions(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	w := withHistory(t, func(o *Options) { o.Log = zap.New(core) })
	w.ask(http.MethodGet, about(topic, "&latest"))
	strange := []string{"https://reader:s3cret@example.org/changes/", "https://example.org/#s3cret", strings.Repeat("s3cret", 1000), "s3cret\x1b[31m\n"}
	for _, strange := range strange {
		w.ask(http.MethodGet, about(strange, "&latest"))
	}
	lines := logs.All()
	if len(lines) != 1+len(strange) || lines[0].ContextMap()["topic"] != topic {
		t.Fatalf("%v", lines)
	}
	for _, line := range lines[1:] {
		if got := line.ContextMap(); got["status"] != int64(404) || strings.Contains(fmt.Sprint(got), "s3cret") {
			t.Errorf("%v", got)
		}
	}
}

// A sentence that begins with a name keeps the name as it is.
func TestNamesAreNotCapitalised(t *testing.T) {
	w := newWorld(t)
	for want, got := range map[string]string{
		"cursor has a broken percent escape": w.do(publish("hub.mode=subscribe&cursor=%zz", with("Content-Type", "application/x-www-form-urlencoded"))).Body.String(),
		": change is ": w.do(publish(notification(
			`capability="change-notification" from="2026-01-01T11:00:00Z" until="2026-01-01T11:01:00Z"`,
			`<url><loc>http://e.org/</loc><rs:md change="upd"/></url>`))).Body.String(),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}
