package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber/destination"
)

// logProgressAfter is how long work lasts before lines about it are logged.
const logProgressAfter = 10 * time.Second

// logProgress returns what shows the progress of a copy that is followed: on a terminal as
// showProgress does, else in the log. Short work, such as a notification, gets no line.
func logProgress(w io.Writer, log *slog.Logger) func(destination.Progress) {
	update := progressOf(cli.NewProgress(w, func(line string) { log.Info(line, "event", "progress") }))
	if cli.IsTerminal(w) {
		return update
	}
	return func(at destination.Progress) {
		if time.Since(at.Began) >= logProgressAfter {
			update(at)
		}
	}
}

// showProgress returns what shows the progress of a copy, and what ends that.
func showProgress(w io.Writer) (update func(destination.Progress), end func()) {
	p := cli.NewProgress(w, nil)
	return progressOf(p), func() { p.End("") }
}

func progressOf(p *cli.Progress) func(destination.Progress) {
	return func(at destination.Progress) {
		p.Show(int64(at.Done), int64(at.Total), line(at))
		if at.Finished {
			p.End("")
		}
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
