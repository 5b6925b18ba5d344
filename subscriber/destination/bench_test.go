package destination_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// far is a Source that is answered from memory, after a round trip where it is asked
// for a resource.
type far struct {
	trip time.Duration
	docs map[string][]byte
	body func(path string) []byte
}

func (f *far) Do(r *http.Request) (*http.Response, error) {
	body, ok := f.docs[r.URL.Path]
	if !ok {
		time.Sleep(f.trip)
		body = f.body(r.URL.Path)
	}
	return &http.Response{
		StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

const farAway = "http://source.example"

// farSource has n resources, in lists of 50,000, or in a dump.
func farSource(t testing.TB, n int, dump bool) *far {
	up := func(to string) []resourcesync.Link { return []resourcesync.Link{{Rel: "up", Href: farAway + to}} }
	f := &far{trip: 50 * time.Millisecond, docs: map[string][]byte{}, body: func(path string) []byte { return []byte("the body of " + path) }}
	at := time.Now().Add(-time.Hour).UTC()
	write := func(name string, h resourcesync.Head, entries func(func(resourcesync.Entry))) {
		var out bytes.Buffer
		w, err := resourcesync.NewWriter(&out, h, resourcesync.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		entries(func(e resourcesync.Entry) {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f.docs[name] = out.Bytes()
	}
	entry := func(i int) resourcesync.Entry {
		path := fmt.Sprintf("/d/%d/%d.txt", i/1000, i)
		body := f.body(path)
		return resourcesync.Entry{Loc: farAway + path, Hash: fmt.Sprintf("sha-256:%x", sha256.Sum256(body)), Length: int64(len(body)), HasLength: true}
	}
	capability, top := resourcesync.ResourceList, "/list.xml"
	if dump {
		capability, top = resourcesync.ResourceDump, "/dump.xml"
		in := map[string]string{}
		for i := range n {
			e := entry(i)
			in[e.Loc] = string(f.body(strings.TrimPrefix(e.Loc, farAway)))
		}
		f.docs["/part.zip"] = []byte(pack(t, resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: at, Links: up("/caps.xml")}, in, nil))
		write(top, resourcesync.Head{Capability: capability, At: at, Links: up("/caps.xml")}, func(add func(resourcesync.Entry)) {
			add(resourcesync.Entry{Loc: farAway + "/part.zip", Hash: hashOf(string(f.docs["/part.zip"]))})
		})
	} else {
		parts := (n + 49_999) / 50_000
		for p := range parts {
			write(fmt.Sprintf("/list%d.xml", p), resourcesync.Head{Capability: capability, At: at, Links: up("/caps.xml")}, func(add func(resourcesync.Entry)) {
				for i := p * 50_000; i < min(n, (p+1)*50_000); i++ {
					add(entry(i))
				}
			})
		}
		write(top, resourcesync.Head{Capability: capability, At: at, Index: true, Links: up("/caps.xml")}, func(add func(resourcesync.Entry)) {
			for p := range parts {
				add(resourcesync.Entry{Loc: fmt.Sprintf("%s/list%d.xml", farAway, p)})
			}
		})
	}
	write("/caps.xml", resourcesync.Head{Capability: resourcesync.CapabilityList, Links: up("/description.xml")}, func(add func(resourcesync.Entry)) {
		add(resourcesync.Entry{Loc: farAway + top, Capability: capability})
	})
	return f
}

// copyFrom takes a baseline and returns how long that took.
func copyFrom(t testing.TB, f *far, dir string, parallel int, want int) time.Duration {
	c, err := destination.Open(destination.Options{
		Source: farAway + "/caps.xml", Dir: dir, Client: f, Parallel: parallel, Roots: []destination.Root{{URL: farAway + "/d/", Dir: "."}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	began := time.Now()
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != want {
		t.Fatalf("%v %+v", err, r)
	}
	return time.Since(began)
}

// BenchmarkBaseline measures a resource of a baseline of 5,000 with 128 requests at once,
// and one from a dump, against one of 200 one at a time, at 50 ms a round trip.
func BenchmarkBaseline(b *testing.B) {
	one, many, dump := farSource(b, 200, false), farSource(b, 5000, false), farSource(b, 5000, true)
	for b.Loop() {
		alone := copyFrom(b, one, b.TempDir(), 1, 200) / 200
		parallel := copyFrom(b, many, b.TempDir(), 128, 5000) / 5000
		packed := copyFrom(b, dump, b.TempDir(), 8, 5000) / 5000
		b.ReportMetric(float64(alone)/float64(parallel), "parallel-x")
		b.ReportMetric(float64(parallel)/float64(packed), "dump-x")
		b.ReportMetric(float64(packed.Microseconds()), "dump-us")
	}
}

// BenchmarkAudit measures an audit of 100,000 files against reading and hashing them.
func BenchmarkAudit(b *testing.B) {
	const n = 100_000
	f, dir := farSource(b, n, true), b.TempDir()
	f.trip = 0
	copyFrom(b, f, dir, 8, n)
	list := farSource(b, n, false)
	c, err := destination.Open(destination.Options{Source: farAway + "/caps.xml", Dir: dir, Client: list, Roots: []destination.Root{{URL: farAway + "/d/", Dir: "."}}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for b.Loop() {
		began := time.Now()
		hashed := 0
		_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, _ error) error {
			if d.IsDir() && d.Name() == ".rssub" {
				return filepath.SkipDir
			}
			if !d.IsDir() {
				raw, _ := os.ReadFile(p)
				_ = sha256.Sum256(raw)
				hashed++
			}
			return nil
		})
		plain := time.Since(began)
		began = time.Now()
		a, err := c.Audit(b.Context(), false)
		if err != nil || !a.InSync || a.Equal != n || hashed != n {
			b.Fatalf("%v %+v", err, a)
		}
		b.ReportMetric(float64(time.Since(began))/float64(plain), "audit/hashing")
	}
}

// BenchmarkMillion measures the memory of a dry run over a list of a million, and of
// an audit that finds all of it missing.
func BenchmarkMillion(b *testing.B) {
	f := farSource(b, 1_000_000, false)
	for b.Loop() {
		for name, work := range map[string]func(*destination.Copy) error{
			"list":  func(c *destination.Copy) error { _, err := c.Sync(b.Context()); return err },
			"audit": func(c *destination.Copy) error { _, err := c.Audit(b.Context(), false); return err },
		} {
			c, err := destination.Open(destination.Options{Source: farAway + "/caps.xml", Dir: filepath.Join(b.TempDir(), "copy"), Client: f, DryRun: true})
			if err != nil {
				b.Fatal(err)
			}
			before, stop := heap(), make(chan struct{})
			var most atomic.Uint64
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
						most.Store(max(most.Load(), heap()))
					}
				}
			}()
			if err := work(c); err != nil {
				b.Fatal(err)
			}
			close(stop)
			_ = c.Close()
			b.ReportMetric(float64(most.Load()-before)/(1<<20), name+"-MiB")
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
