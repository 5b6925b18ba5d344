package demo

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// remembered is the number of notifications whose deliveries are remembered.
const remembered = 1000

// lines prints what happens, one readable line for each step.
type lines struct {
	source string // the beginning of all URLs of resources

	mu        sync.Mutex
	out       io.Writer
	delivered map[string]delivered // by notification
	order     []string             // of delivered, the oldest first
}

// delivered is what is known of the deliveries of a notification.
type delivered struct {
	at time.Time // the first that was not refused
	n  int
}

func newLines(out io.Writer) *lines {
	return &lines{out: out, delivered: map[string]delivered{}}
}

func (l *lines) print(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(l.out, s) // there is nowhere to report it
}

// say prints with the time of day.
func (l *lines) say(s string) { l.print(time.Now().Format(time.TimeOnly) + " " + s) }

// posted prints a notification that the hub refused. An accepted one shows when it arrives.
func (l *lines) posted(_ string, p publisher.Posted) {
	if p.Err != nil {
		l.say(fmt.Sprintf("the hub did not accept a notification, which is sent again: %v", p.Err))
	}
}

// watch records when notifications are delivered. It does so before the answer, since their
// changes may be made before the answer is written.
func (l *lines) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Webhook-Id")
		if r.Method != http.MethodPost || id == "" {
			next.ServeHTTP(w, r)
			return
		}
		l.arrived(id)
		answer := &answered{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		if answer.status/100 != 2 {
			l.refused(id)
		}
	})
}

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (l *lines) arrived(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, known := l.delivered[id]
	if d.n == 0 {
		d.at = time.Now()
	}
	if !known {
		if l.order = append(l.order, id); len(l.order) > remembered {
			delete(l.delivered, l.order[0])
			l.order = l.order[1:]
		}
	}
	d.n++
	l.delivered[id] = d
}

// refused undoes arrived: the hub delivers the notification again.
func (l *lines) refused(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, known := l.delivered[id]; known {
		d.n--
		l.delivered[id] = d
	}
}

// event prints what became of a change.
func (l *lines) event(e destination.Event) {
	if e.Change == "" && e.What != destination.Failed {
		return // the baseline has a line of its own
	}
	s := fmt.Sprintf("%s %s", cmp.Or(string(e.Change), e.What), l.name(e.URL))
	if e.What == destination.Copied {
		s += fmt.Sprintf(" %d B", e.Bytes)
		if sum := resourcesync.ParseHashes(e.Hash).Sum(resourcesync.SHA256); sum != nil {
			s += fmt.Sprintf(" sha-256:%x...", sum[:4])
		}
	}
	s += l.way(e)
	if e.Err != nil {
		s += fmt.Sprintf(": %v; it is tried again", e.Err)
	} else {
		s += fmt.Sprintf(", %s in %s", e.What, since(e.ChangedAt, time.Now()))
	}
	l.say(s)
}

// way says how the Destination learnt of a change, and how long that took.
func (l *lines) way(e destination.Event) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.delivered[e.NotificationID]
	switch {
	case e.NotificationID == "":
		return " found in the Change List"
	case !ok: // long ago
		return " delivered"
	case d.n <= 1:
		return " delivered to 1 subscriber in " + since(e.ChangedAt, d.at)
	default:
		return fmt.Sprintf(" delivered %d times, first in %s", d.n, since(e.ChangedAt, d.at))
	}
}

// since is the time between two instants in milliseconds.
func since(from, to time.Time) string {
	return fmt.Sprintf("%d ms", max(0, to.Sub(from).Milliseconds()))
}

// name is a resource's path in the folder, in one line.
func (l *lines) name(address string) string {
	path, _ := strings.CutPrefix(address, l.source)
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return strconv.Quote(path)
	}
	return path
}
