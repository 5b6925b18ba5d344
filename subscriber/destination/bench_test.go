package destination_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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

const (
	farAway = "http://source.example"
	most    = 50_000 // entries of a document
)

// farSource has n small resources, in lists or packages of at most 50,000.
func farSource(t testing.TB, n int, dump bool) *far { return farSourceOf(t, n, 0, dump) }

// farSourceOf is one with resources of at least a size in bytes.
func farSourceOf(t testing.TB, n, size int, dump bool) *far {
	up := func(to string) []resourcesync.Link { return []resourcesync.Link{{Rel: "up", Href: farAway + to}} }
	f := &far{trip: 50 * time.Millisecond, docs: map[string][]byte{}, body: func(path string) []byte {
		text := []byte("the body of " + path)
		rest := make([]byte, max(size-len(text), 0)) // random, as a package must not be a bomb
		_, _ = rand.NewChaCha8(sha256.Sum256(text)).Read(rest)
		return append(text, rest...)
	}}
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
	var parts []string
	for first := 0; first < n; first += most {
		part, to := len(parts), min(n, first+most)
		if dump {
			in := map[string]string{}
			for i := first; i < to; i++ {
				e := entry(i)
				in[e.Loc] = string(f.body(strings.TrimPrefix(e.Loc, farAway)))
			}
			parts = append(parts, fmt.Sprintf("/part%d.zip", part))
			f.docs[parts[part]] = []byte(pack(t, resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: at, Links: up("/caps.xml")}, in, nil))
			continue
		}
		parts = append(parts, fmt.Sprintf("/list%d.xml", part))
		write(parts[part], resourcesync.Head{Capability: capability, At: at, Links: up("/caps.xml")}, func(add func(resourcesync.Entry)) {
			for i := first; i < to; i++ {
				add(entry(i))
			}
		})
	}
	if dump {
		capability, top = resourcesync.ResourceDump, "/dump.xml"
	}
	write(top, resourcesync.Head{Capability: capability, At: at, Index: !dump, Links: up("/caps.xml")}, func(add func(resourcesync.Entry)) {
		for _, p := range parts {
			e := resourcesync.Entry{Loc: farAway + p}
			if dump {
				e.Hash = hashOf(string(f.docs[p]))
			}
			add(e)
		}
	})
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

// BenchmarkBaseline measures a resource of a baseline of 5,000 with 128 requests at once
// against one of 200 one at a time, at 50 ms a round trip (parallel-x), and one from a
// dump against both (dump-x, dump-alone-x). BenchmarkDump shows what that could be at
// best.
func BenchmarkBaseline(b *testing.B) {
	one, many, dump := farSource(b, 200, false), farSource(b, 5000, false), farSource(b, 5000, true)
	for b.Loop() {
		alone := copyFrom(b, one, b.TempDir(), 1, 200) / 200
		parallel := copyFrom(b, many, b.TempDir(), 128, 5000) / 5000
		packed := copyFrom(b, dump, b.TempDir(), 8, 5000) / 5000
		b.ReportMetric(float64(alone)/float64(parallel), "parallel-x")
		b.ReportMetric(float64(parallel)/float64(packed), "dump-x")
		b.ReportMetric(float64(alone)/float64(packed), "dump-alone-x")
	}
}

// BenchmarkDump measures a resource of a baseline from a dump of 5,000, also against
// the least that can be done: to unzip it and hash it, each file aside and then renamed. The
// ratio is the median of pairs, as the file systems of Linux slow down for half a minute where
// many files were deleted.
func BenchmarkDump(b *testing.B) {
	const n, pairs = 5000, 5
	f := farSource(b, n, true)
	for b.Loop() {
		var packed, plain, ratio []float64
		for range pairs {
			packed = append(packed, float64(copyFrom(b, f, b.TempDir(), 8, n))/n/1000)
			plain = append(plain, float64(unzip(b, f.docs["/part0.zip"], b.TempDir()))/n/1000)
			ratio = append(ratio, packed[len(packed)-1]/plain[len(plain)-1])
		}
		for what, all := range map[string][]float64{"dump-us": packed, "unzip-us": plain, "dump/unzip": ratio} {
			slices.Sort(all)
			b.ReportMetric(all[pairs/2], what)
		}
	}
}

// unzip unpacks and hashes a package as simply as can be, and returns how long that took.
func unzip(t testing.TB, raw []byte, dir string) time.Duration {
	began := time.Now()
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range z.File {
		to := filepath.Join(dir, fmt.Sprint(i/1000), filepath.Base(in.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			t.Fatal(err)
		}
		body, err := in.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(body)
		_ = sha256.Sum256(content)
		if err := errors.Join(err, os.WriteFile(to+".part", content, 0o600), os.Rename(to+".part", to)); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began)
}

// BenchmarkAudit measures an audit of small files, and of files of 100 KB, against reading and hashing
// them one after the other.
func BenchmarkAudit(b *testing.B) {
	b.Run("small", func(b *testing.B) { auditOf(b, 100_000, 0) })
	b.Run("100KB", func(b *testing.B) { auditOf(b, 2_000, 100_000) })
}

func auditOf(b *testing.B, n, size int) {
	f, dir := farSourceOf(b, n, size, true), b.TempDir()
	f.trip = 0
	copyFrom(b, f, dir, 8, n)
	list := farSourceOf(b, n, size, false)
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
