package resourcesync

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkDump writes a package of 1,000 bitstreams of 16 KiB that do not
// compress, and reads it back, verified; beside it in the same run archive/zip
// by itself does, with no manifest and no hashes. What remains is the digests.
func BenchmarkDump(b *testing.B) {
	const files, size = 1000, 16 << 10
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // it never fails
	var ours, bare [2]time.Duration                  // writing, reading
	b.SetBytes(2 * files * size)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		whole := benchWrite(b, files, content)
		written := time.Now()
		benchRead(b, whole)
		read := time.Now()
		plain := bareWrite(b, files, content)
		bareWritten := time.Now()
		bareRead(b, plain)
		ours[0], ours[1] = ours[0]+written.Sub(start), ours[1]+read.Sub(written)
		bare[0], bare[1] = bare[0]+bareWritten.Sub(read), bare[1]+time.Since(bareWritten)
	}
	b.ReportMetric(float64(ours[0])/float64(bare[0]), "write/zip")
	b.ReportMetric(float64(ours[1])/float64(bare[1]), "read/zip")
}

func benchWrite(b *testing.B, files int, content []byte) []byte {
	b.Helper()
	var out bytes.Buffer
	d, err := NewDumpWriter(&out, dumpHead(ResourceDumpManifest), DumpWriteOptions{Store: true})
	if err != nil {
		b.Fatal(err)
	}
	for i := range files {
		e := Entry{Loc: fmt.Sprintf("https://example.org/%d", i), Path: fmt.Sprintf("/%d", i)}
		if err := d.Write(e, bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

func benchRead(b *testing.B, whole []byte) {
	b.Helper()
	d, err := NewDumpReader(bytes.NewReader(whole), int64(len(whole)), DumpReadOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for e, err := range d.Entries() {
		if err != nil {
			b.Fatal(err)
		}
		r, err := d.Open(e)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			b.Fatal(err)
		}
	}
}

func bareWrite(b *testing.B, files int, content []byte) []byte {
	b.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i), Method: zip.Store})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

func bareRead(b *testing.B, whole []byte) {
	b.Helper()
	z, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.Copy(io.Discard, r)
		if err = errors.Join(err, r.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHasher computes MD5 and SHA-256 in one pass.
func BenchmarkHasher(b *testing.B) {
	content := make([]byte, 1<<20)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		h := NewHasher(MD5, SHA256)
		_, _ = h.Write(content) // it never fails
		_ = h.Digests()
	}
}
