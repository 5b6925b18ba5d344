package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/subscriber/destination"
)

// A copy that is followed reports progress in its log, with an event, and only of work that takes
// long.
func TestFollowLogsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, log bytes.Buffer
		show := logProgress(&out, slog.New(slog.NewTextHandler(&log, nil)))
		time.Sleep(time.Hour)
		show(destination.Progress{What: "audit", Done: 3, Total: 3, Began: time.Now().Add(-time.Second), Finished: true})
		if out.Len()+log.Len() > 0 {
			t.Errorf("short work: %s%s", &out, &log)
		}
		show(destination.Progress{What: "audit", Done: 3, Total: 30, Began: time.Now().Add(-time.Minute)})
		if out.Len() > 0 || !strings.Contains(log.String(), "event=progress") || !strings.Contains(log.String(), "audit: 3 of 30") {
			t.Errorf("long work: %s%s", &out, &log)
		}
	})
}

// A line about a failure has the URL once.
func TestLinesNameAURLOnce(t *testing.T) {
	var out bytes.Buffer
	l := &lines{w: &out}
	l.update("", destination.Event{What: destination.Failed, URL: "https://a.example/x", Err: errors.New("https://a.example/x: not allowed")})
	if !strings.Contains(out.String(), " failed https://a.example/x: not allowed\n") {
		t.Error(out.String())
	}
}
