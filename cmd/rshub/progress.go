package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/cli"
)

// every is how often a line tells how far it is where no terminal shows a bar.
const every = 10 * time.Second

// progress tells a person on stderr how many lines are done.
type progress struct {
	out  io.Writer
	what string
	bar  *progressbar.ProgressBar // nil: lines instead
	all  int                      // 0: not known
	told time.Time
}

func newProgress(stderr io.Writer, what string) *progress {
	p := &progress{out: stderr, what: what, told: time.Now()}
	if cli.IsTerminal(stderr) {
		p.bar = progressbar.NewOptions(-1, progressbar.OptionSetWriter(cli.Raw(stderr)), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	return p
}

// of says how many lines there are.
func (p *progress) of(c app.LineCounts) {
	p.all = total(c)
	if p.bar != nil {
		p.bar.ChangeMax(p.all)
	}
}

// lines says how many were done.
func (p *progress) lines(c app.LineCounts) {
	switch {
	case p.bar != nil:
		_ = p.bar.Set(total(c)) // a bar that can't be shown is no reason to stop
	case time.Since(p.told) >= every:
		p.told = time.Now()
		of := ""
		if p.all > 0 {
			of = fmt.Sprintf(" of %d", p.all)
		}
		_, _ = fmt.Fprintf(p.out, "%s %d%s\n", p.what, total(c), of) // as above
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish() // as above
	}
}

func total(c app.LineCounts) int { return c.Topics + c.Pings + c.Subscriptions }
