package subscriptions

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hostile are callback hosts that mean no good, as what they do with a connection
// on which they were asked for a challenge, and how long a try takes there with a
// time limit of 15 s. None of them confirms. Nil: it never accepts one.
var hostile = map[string]struct {
	act   func(say func(string) bool, challenge string)
	after time.Duration
}{
	"never accepts":     {nil, 5 * time.Second},
	"never answers":     {func(func(string) bool, string) { time.Sleep(time.Minute) }, 15 * time.Second},
	"hangs up":          {func(func(string) bool, string) {}, 0},
	"after the limit":   {func(say func(string) bool, c string) { time.Sleep(16 * time.Second); say(confirmation(c)) }, 15 * time.Second},
	"drips a yes":       {dripping("HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n"), 15 * time.Second},
	"drips a header":    {dripping("HTTP/1.1 200 OK\r\nX: "), 15 * time.Second},
	"body has no end":   {flooding("HTTP/1.1 200 OK\r\n\r\n", "x"), 0},
	"header has no end": {flooding("HTTP/1.1 200 OK\r\n", "X-Y: z\r\n"), 0},
	"1xx has no end":    {flooding("", "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"), 0},
	"gzip bomb":         {flooding("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "\x00"), 0},
	"yes, and more": {func(say func(string) bool, c string) {
		say("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + c + strings.Repeat("x", 1000))
	}, 0},
	"cut short": {func(say func(string) bool, c string) {
		say("HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n" + c[:25])
	}, 0},
	"two lengths": {func(say func(string) bool, c string) {
		say("HTTP/1.1 200 OK\r\nContent-Length: 26\r\nContent-Length: 27\r\n\r\n" + c)
	}, 0},
	"redirects to who confirms": {func(say func(string) bool, c string) {
		say("HTTP/1.1 302 Found\r\nLocation: https://" + cbHost + "/?hub.challenge=" + c + "\r\nContent-Length: 0\r\n\r\n")
	}, 0},
	"HTTP/0.9": {func(say func(string) bool, c string) { say(c) }, 0},
	"wait for a year": {func(say func(string) bool, _ string) {
		say("HTTP/1.1 503 Busy\r\nRetry-After: 31536000\r\nContent-Length: 0\r\n\r\n")
	}, 0},
}

func confirmation(challenge string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(challenge), challenge)
}

func dripping(begin string) func(func(string) bool, string) {
	return func(say func(string) bool, challenge string) {
		ok := say(begin)
		for i := 0; ok; i++ {
			time.Sleep(time.Second)
			ok = say(string(challenge[i%len(challenge)]))
		}
	}
}

func flooding(begin, again string) func(func(string) bool, string) {
	return func(say func(string) bool, _ string) {
		ok := say(begin)
		for ok {
			ok = say(strings.Repeat(again, 100))
		}
	}
}

// hostileNet is a transport as the hub has it, to hosts named after the keys of
// hostile by their first label; all others confirm.
func hostileNet(names []string, most *atomic.Int64) *http.Transport {
	return &http.Transport{
		MaxResponseHeaderBytes: 64 << 10, DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			kind := -1
			_, _ = fmt.Sscanf(addr, "evil%d.", &kind)
			act := func(say func(string) bool, c string) { say(confirmation(c)) }
			if kind >= 0 {
				act = hostile[names[kind]].act
			}
			if act == nil {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			ours, theirs := net.Pipe()
			go func() {
				defer func() { _ = theirs.Close() }()
				r, err := http.ReadRequest(bufio.NewReader(theirs))
				if err != nil {
					return
				}
				taken := 0
				act(func(text string) bool {
					n, err := theirs.Write([]byte(text))
					if taken += n; int64(taken) > most.Load() {
						most.Store(int64(taken))
					}
					return err == nil
				}, r.URL.Query().Get("hub.challenge"))
			}()
			return ours, nil
		},
	}
}

// Whatever callback hosts do when they are asked for a challenge, a try is over in
// time, little of the answer is read, none of it confirms, after four tries nothing
// is left of the request, and honest hosts are verified at once meanwhile.
func TestHostileCallbacksDelayNobody(t *testing.T) {
	var names []string
	for name := range hostile {
		names = append(names, name)
	}
	var most atomic.Int64 // that was taken of one answer
	transport := hostileNet(names, &most)
	virtual(t, Options{Client: doFunc(transport.RoundTrip)}, func(t *testing.T, w *world) {
		defer elapse(2 * time.Minute) // until the hosts have noticed
		defer w.run(t)()
		const each = 5
		for i := range names {
			for n := range each {
				w.accept(t, subscribe(fmt.Sprintf("http://evil%d.h%d.example/", i, n)))
			}
		}
		for n := range 20 {
			accepted, cb := time.Now(), fmt.Sprintf("http://good%d.example/", n)
			w.accept(t, subscribe(cb))
			elapse(0)
			if s := w.record(cb).Subscription; s == nil || !s.VerifiedAt.Equal(accepted) {
				t.Fatalf("an honest callback waited: %+v", s)
			}
			elapse(13 * time.Second)
		}
		elapse(time.Hour)
		tries := map[string]int{}
		for _, e := range w.eventsNamed(EventFailed) {
			var kind int
			if _, err := fmt.Sscanf(e.CallbackHost, "evil%d.", &kind); err != nil {
				t.Fatalf("an honest callback failed: %+v", e)
			}
			name := names[kind]
			tries[name]++
			if want := hostile[name].after; e.Duration != want {
				t.Errorf("%s: a try took %v, want %v", name, e.Duration, want)
			}
		}
		for _, name := range names {
			if tries[name] != 4*each {
				t.Errorf("%s: %d tries, want %d", name, tries[name], 4*each)
			}
		}
		if n := w.store.size(); n != 20 {
			t.Errorf("%d records are left, want the 20 of honest callbacks", n)
		}
		if n := most.Load(); n < 1000 || n > 64<<10+16<<10 { // a header, and a buffer
			t.Errorf("%d bytes of one answer were taken", n)
		}
	})
}
