package docs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The Python program of docs/history.md goes on behind the last event that came whole, wherever its stream breaks.
func TestHistoryExampleReadsOn(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	atRoot(t)
	page, err := os.ReadFile("docs/history.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/history.md has no program in Python")
	}
	asked, answers := make(chan string), make(chan string)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Header.Get("Last-Event-ID"):
			_, _ = io.WriteString(w, <-answers)
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	streams := []struct{ after, text string }{
		{"", "retry: 2000\nid: ONE\n\nevent: notification\ndata: {\"n\": 1}\nid: TW"},
		{"ONE", "event: notification\ndata: {\"n\": 1, \"mo"},
		{"ONE", "event: notification\ndata: {\"n\": 1}\nid: TWO\n"},
		{"ONE", ":\n\nevent: notification\ndata: {\"n\": 1}\nid: TWO\n\n"},
		{"TWO", "event: gap\ndata: {\"n\": 2}\nid: THREE\n\n"},
		{"THREE", ""},
	}
	program := strings.NewReplacer("https://hub.example/", srv.URL+"/", "time.sleep(5)", "time.sleep(0.01)").Replace(string(found[1]))
	cmd := exec.CommandContext(t.Context(), "python3", "-u", "-c", program)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for _, s := range streams {
		select {
		case after := <-asked:
			if after != s.after {
				t.Errorf("it goes on after %q, not %q", after, s.after)
			}
			answers <- s.text
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, errs.String())
		}
	}
	_ = cmd.Process.Kill()
	if err := <-ended; err == nil {
		t.Error("it ended by itself")
	}
	if want := "notification {'n': 1}\ngap {'n': 2}\n"; out.String() != want {
		t.Errorf("it printed %q, not %q\n%s", out.String(), want, errs.String())
	}
}
