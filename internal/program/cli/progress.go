package cli

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progressEvery is the time between two lines of a Progress.
const progressEvery = 10 * time.Second

// Progress shows how far a long command is: as a bar on a terminal, else as a line
// every 10 seconds. Its methods may be called from several goroutines.
type Progress struct {
	w        io.Writer
	terminal bool
	say      func(line string)

	mu      sync.Mutex
	bar     *progressbar.ProgressBar // nil: none is shown now
	total   int64                    // of the bar
	last    time.Time                // when the last line was written
	written bool                     // a line was, since the last end
}

// NewProgress returns a Progress that writes to w, usually stderr. If that is no
// terminal, say gets the lines; nil: they too go to w.
func NewProgress(w io.Writer, say func(line string)) *Progress {
	if say == nil {
		say = func(line string) { _, _ = fmt.Fprintln(w, Line(line)) } // if stderr is gone, nobody reads it
	}
	return &Progress{w: w, terminal: IsTerminal(w), say: say, last: time.Now()}
}

// Show shows that done of total are done; total is 0 if nobody knows it. Text is the
// whole line, and stands beside the bar.
func (p *Progress) Show(done, total int64, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.terminal:
		p.draw(done, total, Line(text))
	case time.Since(p.last) >= progressEvery:
		p.last, p.written = time.Now(), true
		p.say(text)
	}
}

func (p *Progress) draw(done, total int64, text string) {
	if p.bar == nil || p.total != total {
		p.total = total
		p.bar = progressbar.NewOptions64(cmp.Or(total, -1), progressbar.OptionSetWriter(Raw(p.w)), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
	}
	p.bar.Describe(text)
	_ = p.bar.Set64(done) // the command goes on if its bar cannot be drawn
}

// End removes the bar. If lines were written instead, text is the last one.
func (p *Progress) End(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish() // the command goes on
		p.bar = nil
	}
	if p.written && text != "" {
		p.say(text)
	}
	p.written = false
}
