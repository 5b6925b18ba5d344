package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher/source"
)

// showScan returns what shows the progress of the first scan of a folder. Later scans
// are not shown. See cli.NewProgress.
func showScan(w io.Writer, folder string, say func(line string)) func(source.Progress) {
	p := cli.NewProgress(w, say)
	var ended atomic.Bool
	return func(at source.Progress) {
		if ended.Load() {
			return
		}
		line := fmt.Sprintf("scanning %s: %s found, %d hashed, %s in %s", folder, quantity.Count(at.Found, "file", "files"), at.Files,
			quantity.BytesText(at.Bytes), at.Elapsed.Round(time.Second))
		p.Show(at.Files, 0, line)
		if at.Done {
			ended.Store(true)
			p.End(line)
		}
	}
}
