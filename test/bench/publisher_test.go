package bench

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/publisher"
	folders "github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
)

const (
	changedFiles = 2_000 // of one sample
	fileSize     = 1 << 10
)

// BenchmarkFileToAccepted is how many changes a second get from a file that is written to the 200
// of a hub that compares each publish with the content of the topic: written, seen, hashed, logged,
// recorded, cut, posted, fetched, stored. The ratio is to a bare loop that writes as many files,
// hashes and stores nothing, and POSTs as many notifications of them to the same hub.
func BenchmarkFileToAccepted(b *testing.B) {
	hub := startHub(b, "--publish-auth=content,token")
	pushed := startPushed(b, hub)
	bare := startBareSource(b, hub)
	var ratios, rates, posts []float64
	for b.Loop() {
		for range 5 {
			took, posted := pushed.sample(b)
			alone := bare.sample(b, posted)
			ratios = append(ratios, took.Seconds()/alone.Seconds())
			rates = append(rates, changedFiles/took.Seconds())
			posts = append(posts, float64(posted))
		}
	}
	for _, all := range [][]float64{ratios, rates, posts} {
		slices.Sort(all)
	}
	middle := len(ratios) / 2
	b.ReportMetric(rates[middle], "changes/s")
	b.ReportMetric(ratios[middle], "x-bare-loop")
	b.ReportMetric(ratios[0], "x-min")
	b.ReportMetric(ratios[len(ratios)-1], "x-max")
	b.ReportMetric(posts[middle], "posts")
}

// pushedFolder is a Source over a folder.
type pushedFolder struct {
	dir             string
	files           int
	accepted, posts atomic.Int64
}

func startPushed(b *testing.B, hub *app.App) *pushedFolder {
	b.Helper()
	p := &pushedFolder{dir: b.TempDir()}
	client, err := egress.New(egress.Options{Allow: egress.DevAllow(), UserAgent: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	var s *folders.Source
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Handler().ServeHTTP(w, r) }))
	b.Cleanup(server.Close)
	s, err = folders.Open(folders.Options{
		PublicURL: server.URL + "/", StateDir: b.TempDir(), Client: client, Every: 20 * time.Millisecond,
		Sets:  []folders.Set{{Folder: folders.FolderOptions{Dir: p.dir, Settle: 20 * time.Millisecond}}},
		Hubs:  []publisher.Hub{{URL: hub.HubURL()}},
		Hooks: folders.Hooks{Posted: p.posted},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			b.Error(err)
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !s.Status().Sets[0].Folder.Ready; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("the folder is not scanned after a minute")
		}
	}
	return p
}

func (p *pushedFolder) posted(_ string, x publisher.Posted) {
	if x.Err == nil && strings.HasSuffix(x.Topic, "/changes/") {
		p.posts.Add(1)
		p.accepted.Add(int64(x.Entries))
	}
}

// sample writes files and waits until the hub has all of their changes.
func (p *pushedFolder) sample(b *testing.B) (took time.Duration, posts int) {
	b.Helper()
	before, posted := p.accepted.Load(), p.posts.Load()
	begun := time.Now()
	p.files = writeSample(b, p.dir, p.files, changedFiles)
	for p.accepted.Load() < before+changedFiles {
		if time.Since(begun) > time.Minute {
			b.Fatalf("%d changes of %d are at the hub after a minute", p.accepted.Load()-before, changedFiles)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun), int(p.posts.Load() - posted)
}

// writeSample writes this many files, numbered from first on, and returns the next number.
func writeSample(b *testing.B, dir string, first, files int) (next int) {
	b.Helper()
	content := bytes.Repeat([]byte("x"), fileSize)
	for n := first; n < first+files; n++ {
		copy(content, fmt.Sprint(n, " "))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return first + files
}

// bareSource serves the notification that it posts, and nothing else.
type bareSource struct {
	source
	dir   string
	files int
	last  atomic.Pointer[[]byte]
}

func startBareSource(b *testing.B, hub *app.App) *bareSource {
	b.Helper()
	s := &bareSource{dir: b.TempDir()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(*s.last.Load())
	}))
	b.Cleanup(server.Close)
	s.source = source{topic: server.URL + "/changes/", hub: hub.HubURL(), until: time.Now().Add(-24 * time.Hour).UTC()}
	return s
}

// sample writes files, and posts their changes in so many notifications.
func (s *bareSource) sample(b *testing.B, posts int) time.Duration {
	b.Helper()
	begun := time.Now()
	for n := range posts {
		count := changedFiles*(n+1)/posts - changedFiles*n/posts
		first := s.files
		s.files = writeSample(b, s.dir, first, count)
		body := s.changes(b, first, count)
		s.last.Store(&body)
		send(b, s.hub, "application/xml", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, s.topic, s.hub), bytes.NewReader(body), http.StatusOK)
	}
	return time.Since(begun)
}

// changes is a notification as long as those of the Source.
func (s *bareSource) changes(b *testing.B, first, count int) []byte {
	b.Helper()
	from := s.until
	s.until = from.Add(time.Second)
	hash := fmt.Sprintf("md5:%x sha-256:%x", [md5.Size]byte{1}, [sha256.Size]byte{1})
	var body bytes.Buffer
	w, err := resourcesync.NewWriter(&body, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: from, Until: s.until}, resourcesync.WriteOptions{})
	for n := first; n < first+count && err == nil; n++ {
		err = w.Write(resourcesync.Entry{
			Loc: s.topic + fmt.Sprint(n), LastMod: from, Change: resourcesync.Created, Datetime: from, Length: fileSize, Type: "text/plain",
			Hash: hash,
		})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	return body.Bytes()
}
