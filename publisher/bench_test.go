package publisher_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// Changes a second from Record to the 200 of a real hub, as a ratio to a loop that
// does nothing but post notifications of as many changes to the same hub.
func BenchmarkRecordToAccepted(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("changes=%d", size), func(b *testing.B) {
			s := newSite(b)
			hub := startHub(b, filepath.Join(b.TempDir(), "data"), "--dev", "--publish-auth=open", "--topic-check=off")
			p, err := publisher.Open(publisher.Options{Dir: b.TempDir(), Topic: s.topic(), Hubs: []publisher.Hub{{URL: hub.HubURL()}}})
			if err != nil {
				b.Fatal(err)
			}
			s.mux.Handle("/changes/", p.Handler())
			run(b, p)
			changes := make([]publisher.Change, size)
			for n := range changes {
				changes[n] = updated(fmt.Sprintf("%s/data/%d", s.URL, n))
			}
			var ours, bare time.Duration
			from := time.Now().UTC().Add(-time.Hour)
			for b.Loop() {
				start := time.Now()
				if err := p.Record(b.Context(), changes...); err != nil {
					b.Fatal(err)
				}
				if err := p.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				ours += time.Since(start)

				start = time.Now()
				from = postBare(b, hub.HubURL(), s.URL+"/bare/", from, changes)
				bare += time.Since(start)
			}
			b.ReportMetric(float64(size*b.N)/ours.Seconds(), "changes/s")
			b.ReportMetric(ours.Seconds()/bare.Seconds(), "bare-loops")
		})
	}
}

// postBare writes a notification and posts it, and returns its end.
func postBare(b *testing.B, hub, topic string, from time.Time, changes []publisher.Change) time.Time {
	b.Helper()
	until := from.Add(time.Millisecond)
	var body bytes.Buffer
	w, err := resourcesync.NewWriter(&body, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: from, Until: until}, resourcesync.WriteOptions{})
	for _, c := range changes {
		c.Entry.Datetime = from
		if err == nil {
			err = w.Write(c.Entry)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		_, err = publisher.Post(b.Context(), bareClient, publisher.Hub{URL: hub}, publisher.Notification{Topic: topic, Body: body.Bytes()})
	}
	if err != nil {
		b.Fatal(err)
	}
	return until
}

var bareClient = &http.Client{}

// Many feeders at once share the writes to the disk.
func BenchmarkRecord(b *testing.B) {
	for _, size := range []int{1, 1000} {
		b.Run(fmt.Sprintf("changes=%d", size), func(b *testing.B) {
			p, err := publisher.Open(publisher.Options{Dir: b.TempDir(), Topic: "https://source.example/changes/"})
			if err != nil {
				b.Fatal(err)
			}
			changes := make([]publisher.Change, size)
			for n := range changes {
				changes[n] = updated(fmt.Sprintf("https://source.example/data/%d", n))
			}
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := p.Record(context.Background(), changes...); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "changes/s")
			if err := p.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
