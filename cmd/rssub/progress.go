package main

import (
	"fmt"
	"io"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber/destination"
)

// showProgress returns what shows the progress of a copy, and what ends that.
func showProgress(w io.Writer) (update func(destination.Progress), end func()) {
	p := cli.NewProgress(w, nil)
	update = func(at destination.Progress) {
		p.Show(int64(at.Done), int64(at.Total), line(at))
		if at.Finished {
			p.End("")
		}
	}
	return update, func() { p.End("") }
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
