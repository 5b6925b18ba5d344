package resourcesync

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// listed is entry i of a big Resource List, as a Source has it.
func listed(i int) Entry {
	return Entry{
		Loc:     fmt.Sprintf("https://example.org/dataset1/collection/%07d/resource.html?version=2&lang=en", i),
		LastMod: hour(0).Add(time.Duration(i) * time.Second),
		Hash: fmt.Sprintf("md5:1e0d5cb8ef6ba40c99b14c02%08x sha-256:854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766ad%08x",
			i, i),
		Length: int64(1000 + i), HasLength: true, Type: "text/html",
		Links: []Link{{Rel: "collection", Href: "https://example.org/dataset1/collection/index.html"}},
	}
}

// xmlList is what a program that uses encoding/xml would write it from.
type xmlList struct {
	XMLName xml.Name   `xml:"urlset"`
	NS      string     `xml:"xmlns,attr"`
	RS      string     `xml:"xmlns:rs,attr"`
	LN      []xmlRS    `xml:"rs:ln"`
	MD      xmlRS      `xml:"rs:md"`
	URL     []xmlEntry `xml:"url"`
}

type xmlEntry struct {
	Loc     string  `xml:"loc"`
	LastMod string  `xml:"lastmod,omitempty"`
	MD      xmlRS   `xml:"rs:md"`
	LN      []xmlRS `xml:"rs:ln"`
}

type xmlRS struct {
	Capability string `xml:"capability,attr,omitempty"`
	At         string `xml:"at,attr,omitempty"`
	Rel        string `xml:"rel,attr,omitempty"`
	Href       string `xml:"href,attr,omitempty"`
	Hash       string `xml:"hash,attr,omitempty"`
	Length     int64  `xml:"length,attr,omitempty"`
	Type       string `xml:"type,attr,omitempty"`
}

// BenchmarkAgainstMarshal writes the same list with a Writer and with
// encoding/xml by turns, the latter with its times in words beforehand, and
// reports the ratio of the medians. It must stay above 4.
func BenchmarkAgainstMarshal(b *testing.B) {
	head := goodHead(ResourceDump, false)
	head.Capability = ResourceList
	entries := make([]Entry, benchEntries)
	list := xmlList{
		NS: sitemapURI, RS: rsURI, MD: xmlRS{Capability: ResourceList, At: FormatDatetime(head.At)},
		LN: []xmlRS{{Rel: "up", Href: head.Links[0].Href}},
	}
	for i := range entries {
		e := listed(i)
		entries[i] = e
		list.URL = append(list.URL, xmlEntry{
			Loc: e.Loc, LastMod: FormatDatetime(e.LastMod), MD: xmlRS{Hash: e.Hash, Length: e.Length, Type: e.Type},
			LN: []xmlRS{{Rel: e.Links[0].Rel, Href: e.Links[0].Href}},
		})
	}
	var out bytes.Buffer
	ours := func() {
		out.Reset()
		w, err := NewWriter(&out, head, WriteOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range entries {
			if err := w.Write(e); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	theirs := func() {
		if _, err := xml.Marshal(list); err != nil {
			b.Fatal(err)
		}
	}
	ours()
	b.SetBytes(int64(out.Len()))
	b.ReportAllocs()
	var a, t []time.Duration
	for b.Loop() {
		runtime.GC() // so that neither pays for what the other left behind
		a = append(a, timed(ours))
		runtime.GC()
		t = append(t, timed(theirs))
	}
	b.ReportMetric(float64(median(t))/float64(median(a)), "x-faster")
	b.ReportMetric(float64(median(a).Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(len(a)), "pairs")
}

func BenchmarkWriter(b *testing.B) {
	w, err := NewWriter(io.Discard, goodHead(ResourceList, false), WriteOptions{})
	if err != nil {
		b.Fatal(err)
	}
	e := listed(1)
	b.ReportAllocs()
	for b.Loop() {
		w.room, w.left = 1, 1<<20
		if err := w.Write(e); err != nil {
			b.Fatal(err)
		}
	}
}

const millionEnv = "RESOURCESYNC_WRITE_A_MILLION"

// BenchmarkMillion has a process of its own write a Resource List of 1,000,000
// entries with its index, and reports the most memory that the process ever had
// resident. It must stay below 64 MiB.
func BenchmarkMillion(b *testing.B) {
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestMillion$", "-test.v")
		cmd.Env = append(os.Environ(), millionEnv+"=1")
		said, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %s", err, said)
		}
		var documents, mib int
		var bytes int64
		for line := range strings.Lines(string(said)) {
			if _, after, ok := strings.Cut(line, "million:"); ok {
				if _, err := fmt.Sscan(after, &documents, &bytes, &mib); err != nil {
					b.Fatal(err)
				}
			}
		}
		if documents != 21 || mib == 0 || mib >= 64 {
			b.Errorf("%d documents in %d MiB", documents, mib)
		}
		b.ReportMetric(float64(mib), "peak-RSS-MiB")
		b.ReportMetric(float64(bytes)/(1<<20), "written-MiB")
	}
}

// TestMillion is the process that BenchmarkMillion measures.
func TestMillion(t *testing.T) {
	if os.Getenv(millionEnv) == "" {
		t.Skip("BenchmarkMillion runs it")
	}
	var sink scales
	head := goodHead(ResourceDump, false)
	head.Capability = ResourceList
	s, err := NewSplitter(head, &sink, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1_000_000 {
		if err := s.Write(listed(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("million: %d %d %d", sink.documents, sink.bytes, peakMiB(t))
}

// scales is a Sink that keeps nothing but how much it is.
type scales struct {
	documents int
	bytes     int64
}

func (c *scales) Create(part int) (io.WriteCloser, string, error) {
	c.documents++
	return c, partURL(part), nil
}

func (c *scales) Write(b []byte) (int, error) {
	c.bytes += int64(len(b))
	return len(b), nil
}

func (c *scales) Close() error { return nil }

// peakMiB is the most memory that this process had resident, by Linux.
func peakMiB(t *testing.T) int {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = f.Close() }()
	for in := bufio.NewScanner(f); in.Scan(); {
		if after, ok := strings.CutPrefix(in.Text(), "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(after), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Skip("no VmHWM in /proc/self/status")
	return 0
}
