package subscriber

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
)

// StatusError.RetryAfter is a day at most, in either form of the header.
func TestRetryAfterIsBounded(t *testing.T) {
	for header, want := range map[string]time.Duration{"120": 2 * time.Minute, "999999": 24 * time.Hour, "Fri, 31 Dec 9999 23:59:59 GMT": 24 * time.Hour, "soon": 0} {
		client := web.DoerFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {header}}, Body: io.NopCloser(strings.NewReader("no"))}, nil
		})
		_, err := Discover(t.Context(), client, "http://topic.example/")
		var status *StatusError
		if !errors.As(err, &status) || status.RetryAfter != want || status.Text != "no" {
			t.Errorf("%s: %+v", header, err)
		}
	}
}

// Without a client there is a guarded one. Its errors name the option that allows an address, and no flag of a
// command.
func TestWithoutAClient(t *testing.T) {
	const local = "http://127.0.0.1:8080/"
	list := Set{Documents: map[string]string{resourcesync.ChangeList: local}}
	for name, c := range map[string]struct {
		ask  func() error
		want string
	}{
		"Discover":       {func() error { _, err := Discover(t.Context(), nil, local); return err }, "unless another client is given"},
		"DiscoverSource": {func() error { _, err := DiscoverSource(t.Context(), nil, local); return err }, "unless another client is given"},
		"ReadChanges": {func() error {
			_, err := ReadChanges(t.Context(), nil, list, time.Now(), ListLimit{}, nil)
			return err
		}, "unless another client is given"},
		"Notifications": {func() error {
			for _, err := range Notifications(t.Context(), StreamOptions{Topic: local}) {
				return err
			}
			return nil
		}, "unless Options.Allow 127.0.0.0/8 allows it"},
	} {
		if err := c.ask(); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "--") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// alone is a client that fails a request while an answer to another is open.
type alone struct {
	Doer
	open int
}

func (a *alone) Do(r *http.Request) (*http.Response, error) {
	if a.open > 0 {
		return nil, fmt.Errorf("%s is asked for while another answer is open", r.URL)
	}
	resp, err := a.Doer.Do(r)
	if err == nil {
		a.open++
		resp.Body = &closed{resp.Body, func() { a.open-- }}
	}
	return resp, err
}

// closed calls then when it is closed for the first time.
type closed struct {
	io.ReadCloser
	then func()
}

func (c *closed) Close() error {
	c.then()
	c.then = func() {}
	return c.ReadCloser.Close()
}

// No document stays open while another one is asked for: a host that gives out one answer
// at a time would never give out the second one.
func TestOneAnswerAtATime(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		const host = "https://one.example"
		up := func(to string) []resourcesync.Link { return []resourcesync.Link{{Rel: "up", Href: host + to}} }
		l.serve(host+WellKnown, resourcesync.Head{Capability: resourcesync.Description}, resourcesync.Entry{Loc: host + "/caps.xml", Capability: resourcesync.CapabilityList})
		l.serve(host+"/caps.xml", resourcesync.Head{Capability: resourcesync.CapabilityList, Links: up(WellKnown)},
			resourcesync.Entry{Loc: host + "/list.xml", Capability: resourcesync.ResourceList}, resourcesync.Entry{Loc: host + "/changes.xml", Capability: resourcesync.ChangeList})
		l.serve(host+"/list.xml", resourcesync.Head{Capability: resourcesync.ResourceList, At: l.from, Links: up("/caps.xml")})
		l.serve(host+"/notified.xml", resourcesync.Head{Capability: resourcesync.ChangeNotification, From: l.from, Until: l.from, Links: up("/nothing.xml")})
		l.page(host+"/page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", `<`+host+`/caps.xml>; rel="resourcesync"`)
			l.write(w, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: l.from, Until: l.from})
		})
		l.page(host+"/robots.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Sitemap: "+host+"/list.xml\n") })

		l.serve(host+"/changes.xml", l.index(), l.member(host+"/member.xml", 0, -1), resourcesync.Entry{Loc: host + "/unknown.xml"})
		l.list(host+"/member.xml", 0, -1, 1)
		l.list(host+"/unknown.xml", 0, -1, 2)
		for what, do := range map[string]func(context.Context, Doer) error{
			"a host": func(ctx context.Context, c Doer) error { _, err := DiscoverSource(ctx, c, host+"/"); return err },
			"a list": func(ctx context.Context, c Doer) error {
				_, err := DiscoverSource(ctx, c, host+"/list.xml")
				return err
			},
			"a topic": func(ctx context.Context, c Doer) error { _, err := DiscoverSource(ctx, c, host+"/page"); return err },
			"a sitemap": func(ctx context.Context, c Doer) error {
				d := discoverer{client: c, seen: map[string]error{}}
				found, err := d.robots(ctx, host+robotsPath)
				if err == nil && !found {
					err = errors.New("nothing found")
				}
				return err
			},
			"changes": func(ctx context.Context, c Doer) error {
				set := Set{Documents: map[string]string{resourcesync.ChangeList: host + "/changes.xml"}}
				n := 0
				_, err := ReadChanges(ctx, c, set, l.from, ListLimit{}, func(resourcesync.Entry) error { n++; return nil })
				if err == nil && n != 2 {
					err = fmt.Errorf("%d changes", n)
				}
				return err
			},
		} {
			client := &alone{Doer: l}
			if err := do(l.Context(), client); err != nil || client.open != 0 {
				t.Errorf("%s: %v; %d answers stay open", what, err, client.open)
			}
		}
	})
}
