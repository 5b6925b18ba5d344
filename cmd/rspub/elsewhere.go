package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
)

// mostCompared is how much of a resource is read to compare it.
const mostCompared = 64 << 20

// checkResources compares what a few of the resources that another server has (--resource-url)
// answer with what the lists say, once each set has been scanned.
func checkResources(ctx context.Context, s *source.Source, log *slog.Logger) {
	eachSet(ctx, s, func(x *source.SetStatus) bool { return x.Folder.Ready }, func(set string) { warnOfResources(ctx, s, log, set) })
}

// eachSet calls do with the name of each set, as soon as ready says so. It returns when it has done so
// for all, or when ctx ends: a set that never gets ready holds up no other.
func eachSet(ctx context.Context, s *source.Source, ready func(*source.SetStatus) bool, do func(set string)) {
	done := make(map[string]bool)
	for {
		sets := s.Status().Sets
		for i := range sets {
			if x := &sets[i]; !done[x.Name] && ready(x) {
				done[x.Name] = true
				do(x.Name)
			}
		}
		if len(done) == len(sets) || !clock.Sleep(ctx, scanPoll) {
			return
		}
	}
}

// warnOfResources logs those of the samples that are not served as the lists say. Nothing is
// stopped by it: the web server may be mended while the Source runs.
func warnOfResources(ctx context.Context, s *source.Source, log *slog.Logger, sets ...string) {
	samples, err := s.Samples(sets...)
	if err != nil || len(samples) == 0 {
		return // what is wrong with the index is reported by what writes the lists
	}
	// The operator names these addresses, so they may be in a private network.
	client, err := egress.New(egress.Options{UserAgent: "rspub", Allow: egress.DevAllow()})
	if err != nil {
		return // the ranges are good
	}
	wrong, first := 0, ""
	for i := range samples {
		if why := served(ctx, client, &samples[i]); why != "" {
			wrong, first = wrong+1, cmp.Or(first, why)
		}
	}
	if wrong > 0 && ctx.Err() == nil {
		log.Warn("resources are not served as they are listed, so subscribers cannot copy them: "+cli.Line(first)+
			". Give the address at which the web server has the folder with --resource-url, and let the web server send the files as they are",
			"event", "resources_unlike_listed", "looked_at", len(samples), "wrong", wrong)
	}
}

// served fetches a resource. It returns what is not as its entry says.
func served(ctx context.Context, client web.Doer, e *resourcesync.Entry) string {
	most := int64(mostCompared)
	if e.HasLength {
		most = e.Length
	}
	if most > mostCompared {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	a, err := web.Ask(ctx, client, web.Request{Method: http.MethodGet, URL: e.Loc, Header: http.Header{"Accept-Encoding": {"identity"}}})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = a.Body.Close() }() // only read
	if a.StatusCode != http.StatusOK {
		return fmt.Sprintf("%s answers %d", a.URL, a.StatusCode)
	}
	listed := resourcesync.ParseHashes(e.Hash)
	h := resourcesync.NewHasher(listed.Algorithms()...)
	switch _, err := io.Copy(h, io.LimitReader(a.Body, most+1)); {
	case errors.Is(err, context.DeadlineExceeded):
		return "" // it is slow, and not known to be wrong
	case err != nil:
		return fmt.Sprintf("%s broke off: %v", a.URL, err)
	case !e.HasLength && h.Length() > most:
		return "" // too long to be compared
	case h.Length() > most:
		return fmt.Sprintf("%s has more than the %d bytes of the file", a.URL, e.Length)
	case e.HasLength && h.Length() < most:
		return fmt.Sprintf("%s has %d bytes, and the file has %d", a.URL, h.Length(), e.Length)
	case listed.Compare(h.Digests()) == resourcesync.Different:
		return fmt.Sprintf("%s has other bytes than the file", a.URL)
	}
	return ""
}
