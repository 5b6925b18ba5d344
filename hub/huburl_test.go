package hub_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A hub without a path in its URL is named with a slash or without one, by whoever
// publishes and by the topic: posted or fetched, a notification comes in. HUB-51, HUB-53
func TestHubURLWithoutItsSlash_HUB51_HUB53(t *testing.T) {
	for _, path := range []string{"", "/"} {
		for _, posted := range []string{"", "/"} {
			for _, named := range []string{"", "/"} {
				t.Run(fmt.Sprintf("hub%s post%s topic%s", path, posted, named), func(t *testing.T) {
					hubURL, store := realHubAt(t, path)
					root := strings.TrimSuffix(hubURL, "/")
					src := newSource(t)
					a := interval(0, 1, "a")
					src.set(func() { src.hub, src.served["/changes/"] = root+named, a })
					if status, answer := post(t, root+posted, src.URL+"/changes/", "", a); status != http.StatusOK {
						t.Errorf("published: %d %s", status, answer)
					}
					head, err := store.Head(t.Context(), src.URL+"/changes/")
					if err != nil || head.Last.Seq != 1 {
						t.Errorf("%d entries, %v", head.Last.Seq, err)
					}
				})
			}
		}
	}
}

// Content that is fetched after a ping may also name the hub without its slash. HUB-60
func TestFetchedTopicNamesTheHubWithoutItsSlash_HUB60(t *testing.T) {
	for _, path := range []string{"", "/"} {
		hubURL, store := realHubAt(t, path)
		root := strings.TrimSuffix(hubURL, "/")
		for _, named := range []string{"", "/"} {
			src := newSource(t)
			src.set(func() { src.hub, src.served["/changes/"] = root+named, interval(0, 1, "a") })
			topic := src.URL + "/changes/"
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hubURL, strings.NewReader(url.Values{"hub.mode": {"publish"}, "hub.url": {topic}}.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if status, answer := send(t, req); status != http.StatusAccepted {
				t.Fatalf("%d %s", status, answer)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			for {
				head, err := store.Head(ctx, topic)
				if err != nil {
					t.Fatalf("hub %q, topic names %q: nothing was fetched: %v", path, named, err)
				}
				if head.Last.Seq == 1 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			cancel()
		}
	}
}
