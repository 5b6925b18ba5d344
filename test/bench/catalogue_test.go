package bench

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/test/programs"
)

// BenchmarkCatalogue is the first `rspub build` from a catalogue of 1,000,000 rows (a tenth of that
// without RSHUB_BENCH_FULL), as a process: read, checked, sorted, stored in the index, and listed. The
// ratio is to reading the rows with encoding/json into the same fields, and doing nothing with them.
func BenchmarkCatalogue(b *testing.B) {
	dir, n := b.TempDir(), sized(1_000_000)
	if err := programs.Build(dir, "rspub"); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "catalogue.jsonl")
	writeCatalogue(b, file, n)
	var ratios, cpu, peaks, owns []float64
	for b.Loop() {
		start, used := time.Now(), cpuTime()
		readRows(b, file, n)
		plain, plainUsed := time.Since(start), cpuTime()-used
		out := b.TempDir()
		cmd := exec.CommandContext(b.Context(), filepath.Join(dir, "rspub"), "build", "--catalogue", file, "--dump-every", "off",
			"--public-url", "https://repo.example.org/rs/", "--out", filepath.Join(out, "www"), "--state-dir", filepath.Join(out, "state"))
		start = time.Now()
		own := make(chan float64)
		ended := make(chan struct{})
		var text bytes.Buffer
		cmd.Stdout, cmd.Stderr = &text, &text
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		go func() { own <- mostOwn(cmd.Process.Pid, ended) }()
		if err := cmd.Wait(); err != nil {
			b.Fatalf("%v: %s", err, &text)
		}
		took := time.Since(start)
		close(ended)
		owns = append(owns, <-own)
		of, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		ratios = append(ratios, took.Seconds()/plain.Seconds())
		cpu = append(cpu, (cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Seconds()/plainUsed.Seconds())
		peaks = append(peaks, float64(of.Maxrss)/1024)
		if err := os.RemoveAll(out); err != nil {
			b.Fatal(err)
		}
	}
	for _, all := range [][]float64{ratios, cpu, peaks, owns} {
		slices.Sort(all)
	}
	b.ReportMetric(ratios[len(ratios)/2], "x-reading")
	b.ReportMetric(cpu[len(cpu)/2], "cpu-x-reading")
	b.ReportMetric(peaks[len(peaks)-1], "MiB-peak")
	b.ReportMetric(owns[len(owns)-1], "MiB-without-index")
	b.ReportMetric(float64(n), "rows")
}

// mostOwn is the most MiB of memory that a process has for itself until it ended: without the pages of the index,
// which is mapped, and which the kernel takes back when it needs them.
func mostOwn(pid int, ended <-chan struct{}) (most float64) {
	for {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
			var kib float64
			if _, after, ok := strings.Cut(string(text), "RssAnon:"); ok {
				_, _ = fmt.Sscan(after, &kib) // 0: the process has ended
			}
			most = max(most, kib/1024)
		}
		select {
		case <-ended:
			return most
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// writeCatalogue writes a whole catalogue of n rows, in another order than that of their URLs.
func writeCatalogue(b *testing.B, name string, n int) {
	b.Helper()
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range n {
		_, _ = fmt.Fprintf(w, `{"url":"https://repo.example.org/item/%d/full-text.pdf","lastmod":"2026-01-%02dT12:%02d:00Z","length":%d,"hash":"sha-256:%x","type":"application/pdf"}`+"\n",
			i, i%28+1, i%60, i, sha256.Sum256(fmt.Append(nil, i)))
	}
	_, _ = fmt.Fprintf(w, `{"end":true,"count":%d}`+"\n", n) // Flush reports errors
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// readRows reads a catalogue of n rows.
func readRows(b *testing.B, name string, n int) {
	b.Helper()
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	in := bufio.NewScanner(bufio.NewReader(f))
	for rows := 0; in.Scan(); rows++ {
		var row struct { // as docs/publisher.md has the fields of a line
			URL, Path, Content, Hash, Type, Encoding, LastMod string
			Length, Count                                     *int64
			Links                                             []struct{ Rel, Href string }
			Deleted, End                                      bool
			Begin                                             string
		}
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			b.Fatal(err)
		}
		if row.End && (rows != n || *row.Count != int64(n)) {
			b.Fatalf("%d rows", rows)
		}
	}
	if err := in.Err(); err != nil {
		b.Fatal(err)
	}
}
