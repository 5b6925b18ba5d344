package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/test/redistest"
)

// A hub moves from its folder to Redis, and back. Its topics and subscriptions continue where they
// were, with secrets and cursors. What a subscription had not got becomes a gap of it.
func TestFromTheFolderToRedisAndBack(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t)
	dir := t.TempDir()
	key, first, second := filepath.Join(dir, "keys"), filepath.Join(dir, "first.jsonl"), filepath.Join(dir, "second.jsonl")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sealed := []string{"--seal-key-file", key}
	onRedis := append([]string{"--redis-url", redis.URL()}, sealed...)
	subscriber, src := newReceiver(t, 1), newSource("http://127.0.0.1:2/topic/")
	subscriber.onPost(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	hubArgs := append([]string{"--topic-check=off", "--public-url", hubURL}, sealed...)
	publish := func(h *hub) {
		t.Helper()
		header := http.Header{"Content-Type": {"application/xml"}, "Link": {fmt.Sprintf(link, src.topic, hubURL)}}
		do(t, http.MethodPost, h.url(), header, src.next(0)).want(t, http.StatusOK)
	}
	got := func(path string, n int) {
		t.Helper()
		eventually(t, time.Minute, func() error {
			count := 0
			for _, d := range subscriber.got() {
				if d.callback == path {
					count++
					if d.signature != sign("secret of "+path, d.body) {
						t.Errorf("%s got %q, which is not signed with its secret", path, d.body)
					}
				}
			}
			if count != n {
				return fmt.Errorf("%s got %d deliveries, want %d", path, count, n)
			}
			return nil
		})
	}

	old := startHub(t, hubArgs...)
	for _, path := range []string{"/cb", "/slow"} {
		old.subscribe(src.topic, subscriber.url(0, path), "hub.secret", "secret of "+path).want(t, http.StatusAccepted)
	}
	old.active(2)
	for range 3 {
		publish(old)
	}
	got("/cb", 3)
	old.terminate()
	told := rshub(t, append([]string{"export", "--data-dir", old.dir, first}, sealed...)...)
	if !strings.Contains(told, "Not delivered yet: 3 notifications to 1 subscription") {
		t.Errorf("export told %s", told)
	}
	rshub(t, append([]string{"import", first}, onRedis...)...)

	subscriber.onPost(nil) // it is well again
	grown := startHub(t, append(hubArgs, "--redis-url", redis.URL())...)
	eventually(t, time.Minute, func() error { // it compares first: Redis is new to it, and an import settles nothing
		a, err := try(t.Context(), http.MethodGet, "http://"+grown.admin+"/readyz?verbose", nil, nil)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("%s", a.body)
		}
		return err
	})
	publish(grown) // from where the topic ended
	got("/cb", 4)
	eventually(t, time.Minute, func() error {
		var page struct {
			Items []struct {
				Reason string `json:"reason"`
				Count  int    `json:"count"`
			} `json:"items"`
		}
		id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(src.topic+"\n"+subscriber.url(0, "/slow")))
		grown.api("/api/v1/subscriptions/"+id.String()+"/gaps", &page)
		if len(page.Items) != 1 || page.Items[0].Reason != "retention" || page.Items[0].Count != 3 {
			return fmt.Errorf("the gaps of the slow one are %+v", page.Items)
		}
		return nil
	})
	grown.terminate()

	rshub(t, append([]string{"export", second}, onRedis...)...)
	back := newHub(t, hubArgs...)
	rshub(t, append([]string{"import", "--data-dir", back.dir, second}, sealed...)...)
	back.start()
	publish(back)
	got("/cb", 5)
}
