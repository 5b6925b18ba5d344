package subscriber

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/websub"
)

// BenchmarkReceive tells how many notifications of one change and 1 KB are received,
// made durable, handed on and committed, from so many senders at once, beside a bare
// handler that reads the body: "of-bare" is the ratio of their rates, measured in
// turn, in one run.
func BenchmarkReceive(b *testing.B) {
	for _, senders := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			const token, secret = "TOKEN", "0123456789abcdef"
			s, err := Open(Options{Dir: b.TempDir(), Topic: "https://source.example/topic", Callback: "https://me.example/"})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if err := s.inbox.update(func(tx *tx) error {
				return putSubscription(tx, subscription{Token: token, Topic: "t", Secret: secret, VerifiedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)})
			}); err != nil {
				b.Fatal(err)
			}
			mux := http.NewServeMux()
			mux.Handle("/cb/", s.Handler())
			mux.HandleFunc("/bare", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusNoContent)
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			if tr, ok := server.Client().Transport.(*http.Transport); ok {
				tr.MaxIdleConnsPerHost = senders
			}
			body := []byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
				`<rs:md capability="framework-notification"/><url><loc>https://source.example/list</loc><rs:md change="updated" capability="resourcelist"/></url><!--` +
				strings.Repeat("x", 750) + `--></urlset>`)
			signature := websub.SHA256.Sign(secret, body)
			var n atomic.Int64
			post := func(url string) time.Duration {
				begun := time.Now()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for range senders {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
							req.Header.Set("Content-Type", "application/xml")
							req.Header.Set("Webhook-Id", fmt.Sprint(n.Add(1)))
							req.Header.Set(websub.HeaderSignature, signature)
							resp, err := server.Client().Do(req)
							if err != nil || resp.StatusCode != http.StatusNoContent {
								b.Errorf("%v %v", resp, err)
								return
							}
							_ = resp.Body.Close()
						}
					})
				}
				wg.Wait()
				return time.Since(begun)
			}
			post(server.URL + "/bare") // opens the connections
			bare := post(server.URL + "/bare")
			ctx, cancel := context.WithCancel(b.Context())
			handed := make(chan int)
			go func() {
				got := 0
				for c := range s.Changes(ctx) {
					if got++; got%100 == 0 || got == b.N {
						_ = s.Commit(c.Cursor)
					}
					if got == b.N {
						break
					}
				}
				handed <- got
			}()
			b.ResetTimer()
			begun := time.Now()
			post(server.URL + "/cb/" + token)
			if got := <-handed; got != b.N {
				b.Errorf("%d of %d were handed on", got, b.N)
			}
			took := time.Since(begun)
			b.StopTimer()
			cancel()
			b.ReportMetric(float64(b.N)/took.Seconds(), "notifications/s")
			b.ReportMetric(bare.Seconds()/took.Seconds(), "of-bare")
		})
	}
}
