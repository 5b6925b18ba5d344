package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher/source"
)

// progressEvery is how often a line says how far a scan is, where no terminal
// shows a bar.
const progressEvery = 10 * time.Second

// progress shows how far the first scan of a folder is.
type progress struct {
	say  func(line string) // where there is no bar
	name string            // of the folder

	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	told  time.Duration // when the last line was written, into the scan
	ended bool
}

// newProgress shows a bar where w is a terminal, and else has lines said.
func newProgress(w io.Writer, say func(line string), name string) *progress {
	p := &progress{say: say, name: name}
	if cli.IsTerminal(w) {
		// How much there is to come nobody knows.
		p.bar = progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(cli.Raw(w)), progressbar.OptionShowBytes(true), progressbar.OptionSpinnerType(14),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true),
		)
	}
	return p
}

// update shows what a folder reports of its first scan. Later scans are not shown.
func (p *progress) update(at source.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = at.Done
	line := fmt.Sprintf("scanning %s: %s found, %d hashed, %s", p.name, quantity.Count(at.Found, "file", "files"), at.Files, quantity.BytesText(at.Bytes))
	switch {
	case p.bar != nil && at.Done:
		_ = p.bar.Finish() // there is nobody to tell
	case p.bar != nil:
		p.bar.Describe(cli.Line(line))
		_ = p.bar.Set64(at.Bytes) // as above
	case at.Elapsed-p.told >= progressEvery || at.Done && p.told > 0:
		p.told = at.Elapsed
		p.say(fmt.Sprintf("%s in %s", line, at.Elapsed.Round(time.Second)))
	}
}
