package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber/destination"
)

// progressEvery is how often a line says how far things are, where no terminal
// shows a bar.
const progressEvery = 10 * time.Second

// progress shows how far a copy is: as a bar on a terminal, else as lines.
type progress struct {
	w        io.Writer
	terminal bool

	mu   sync.Mutex
	bar  *progressbar.ProgressBar
	what string
	told time.Time
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: cli.IsTerminal(w), told: time.Now()}
}

// update shows what the copy reports.
func (p *progress) update(at destination.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		p.show(at)
		return
	}
	if time.Since(p.told) < progressEvery {
		return
	}
	p.told = time.Now()
	_, _ = fmt.Fprintln(p.w, cli.Line(line(at))) // there is nobody to tell
}

func (p *progress) show(at destination.Progress) {
	if p.bar == nil || p.what != at.What {
		p.what = at.What
		total := int64(at.Total)
		if total == 0 {
			total = -1
		}
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(cli.Raw(p.w)), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetPredictTime(true))
	}
	p.bar.Describe(cli.Line(fmt.Sprintf("%s %s", at.What, quantity.BytesText(at.Bytes))))
	_ = p.bar.Set(at.Done) // as above
	if at.Finished {
		_ = p.bar.Finish()
		p.bar = nil
	}
}

// end leaves the line to what is printed next.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// line says how far a copy is, with the rate and the time that is left.
func line(at destination.Progress) string {
	took := time.Since(at.Began)
	s := fmt.Sprintf("%s: %d", at.What, at.Done)
	if at.Total > 0 {
		s += fmt.Sprintf(" of %d", at.Total)
	}
	s += fmt.Sprintf(", %s", quantity.BytesText(at.Bytes))
	if at.Failed > 0 {
		s += fmt.Sprintf(", %d failed", at.Failed)
	}
	if took > 0 && at.Done > 0 {
		rate := float64(at.Done) / took.Seconds()
		s += fmt.Sprintf(", %.0f/s", rate)
		if left := at.Total - at.Done; left > 0 {
			s += fmt.Sprintf(", %v left", (time.Duration(float64(left)/rate) * time.Second).Round(time.Second))
		}
	}
	return s
}
