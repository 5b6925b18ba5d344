package bench

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// BenchmarkValidate runs `rshub validate FILE` on a notification of 50,000 entries. The ratio is
// its CPU time, with its start, to the time of the package for the same bytes.
func BenchmarkValidate(b *testing.B) {
	dir := b.TempDir()
	command := filepath.Join(dir, "rshub")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", command, "github.com/rshub/rshub/cmd/rshub").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	doc, file := notificationOf(50_000), filepath.Join(dir, "notification.xml")
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		b.Fatal(err)
	}
	var whole, alone []time.Duration
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), command, "validate", file)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		whole = append(whole, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		before := cpuTime()
		if n, err := resourcesync.CheckNotification(bytes.NewReader(doc), resourcesync.DefaultLimits); err != nil || n.Entries != 50_000 {
			b.Fatal(n, err)
		}
		alone = append(alone, cpuTime()-before)
	}
	b.ReportMetric(float64(medianOf(whole))/float64(medianOf(alone)), "x-package")
	b.ReportMetric(float64(medianOf(alone).Microseconds())/1000, "package-ms")
}

func medianOf(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func notificationOf(entries int) []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"/>
`)
	for i := range entries {
		fmt.Fprintf(&b, `<url><loc>https://example.org/data/%d/file-%d.pdf</loc><lastmod>2026-01-01T00:00:00Z</lastmod>`+
			`<rs:md change="updated" datetime="2026-01-01T12:00:00Z" hash="sha-256:%x" length="%d" type="application/pdf"/>`+
			`<rs:ln rel="collection" href="https://example.org/collections/%d"/></url>`+"\n",
			i%100, i, sha256.Sum256(fmt.Append(nil, i)), i, i%100)
	}
	b.WriteString("</urlset>\n")
	return b.Bytes()
}
