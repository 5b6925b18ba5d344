package examine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// A failure is reported even if there are too many findings.
func TestTheFailureIsReported(t *testing.T) {
	v := Document{Valid: true}
	for range maxFindings + 50 {
		v.add(Finding{Level: Warn, Rule: "DOC-55"})
	}
	v.add(Finding{Level: Fail, Rule: "DOC-16"})
	if v.Valid || v.Rule != "DOC-16" || len(v.Findings) != maxFindings+1 || v.Untold != 50 {
		t.Errorf("%d findings, %d untold: %+v", len(v.Findings), v.Untold, v)
	}
}

// What is too long is not read on.
func TestReadingIsBounded(t *testing.T) {
	r := &zeros{}
	in, err := readWhole("-", r, resourcesync.DefaultLimits.Bytes)
	if err != nil || in.size != resourcesync.DefaultLimits.Bytes+1 || !in.cut || r.read > 2*in.size {
		t.Errorf("%d bytes of %d, %v", in.size, r.read, err)
	}
	_, err = newExamination(Options{}, nil).check(input{name: "x", at: strings.NewReader("PK\x03\x04"), size: 4, cut: true})
	if err == nil || !strings.Contains(err.Error(), "save it as a file") {
		t.Errorf("a package that was cut off: %v", err)
	}
}

type zeros struct{ read int64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.read += int64(len(p))
	return len(p), nil
}

// A host is asked again only after a pause, and after what it asks for; other
// hosts at once.
func TestHostsAreAskedPolitely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newExamination(Options{Pause: time.Second}, nil)
		begin := time.Now()
		for _, step := range []struct {
			host string
			want time.Duration
		}{{"a:80", 0}, {"b:80", 0}, {"a:80", time.Second}, {"a:80", 2 * time.Second}, {"b:80", 2 * time.Second}} {
			if err := s.wait(t.Context(), step.host); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got != step.want {
				t.Errorf("%s was asked after %v, want %v", step.host, got, step.want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.wait(ctx, "a:80"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
	for header, want := range map[string]bool{"": false, "0": true, "30": true, "31": false, "-1": false, "1.5": false, "99999999999": false, "soon": false, future(20 * time.Second): true, future(time.Hour): false} {
		if _, got := retryAfter(http.StatusServiceUnavailable, http.Header{"Retry-After": {header}}); got != want {
			t.Errorf("Retry-After %q: waits %t", header, got)
		}
	}
}

// future is a date in the form of a header.
func future(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }

func TestCanonical(t *testing.T) {
	for a, b := range map[string]string{
		"http://Example.org":          "HTTP://example.org:80/",
		"https://example.org:443/a?b": "https://example.org./a?b#c",
	} {
		if canonical(a) != canonical(b) {
			t.Errorf("%q is not %q", a, b)
		}
	}
	for a, b := range map[string]string{
		"http://example.org/": "https://example.org/", "http://example.org/a": "http://example.org/A", "http://example.org/?a": "http://example.org/", "::": "http://::",
	} {
		if canonical(a) == canonical(b) {
			t.Errorf("%q is %q", a, b)
		}
	}
}

// Each kind of document either lists others, by a rule, or resources or changes.
func TestListRules(t *testing.T) {
	listing := 0
	for _, capability := range []string{
		resourcesync.Description, resourcesync.CapabilityList, resourcesync.ResourceList, resourcesync.ResourceDump,
		resourcesync.ChangeList, resourcesync.ChangeDump, resourcesync.ResourceListArchive, resourcesync.ResourceDumpArchive,
		resourcesync.ChangeListArchive, resourcesync.ChangeDumpArchive, resourcesync.ResourceDumpManifest,
		resourcesync.ChangeDumpManifest, resourcesync.ChangeNotification, resourcesync.FrameworkNotification,
	} {
		for _, index := range []bool{false, true} {
			h := resourcesync.Head{Capability: capability, Index: index}
			lists := index
			switch capability {
			case resourcesync.Description, resourcesync.CapabilityList, resourcesync.ResourceDump, resourcesync.ChangeDump:
				lists = true
			}
			lists = (lists || isArchive(capability)) && h.Kind() != ""
			if lists != (listRule(h) != "") {
				t.Errorf("%s, index %t, has the rule %q", capability, index, listRule(h))
			}
			if lists {
				listing++
			}
		}
	}
	if listing != len(listRules) {
		t.Errorf("%d kinds of documents list others, and %d have a rule", listing, len(listRules))
	}
}
