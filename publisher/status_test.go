package publisher

import (
	"bytes"
	"testing"
	"time"
)

// An interval that was divided counts as the whole, except for a hub that has its first part.
func TestPendingCountsDividedIntervalsOnce(t *testing.T) {
	p := openAt(t, t.TempDir(), nil)
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0).UTC() }
	var is []interval
	var bodies [][]byte
	for _, i := range [][3]int{{0, 10, 100}, {0, 5, 60}, {5, 10, 61}, {5, 7, 40}, {7, 10, 41}, {10, 20, 7}} {
		is = append(is, interval{From: at(i[0]), Until: at(i[1])})
		bodies = append(bodies, bytes.Repeat([]byte("x"), i[2]))
	}
	if err := p.box.keep(t.Context(), is, bodies, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		until   time.Time
		n, size int
	}{{time.Time{}, 2, 107}, {at(0), 2, 107}, {at(5), 2, 68}, {at(7), 2, 48}, {at(10), 1, 7}, {at(20), 0, 0}} {
		var h HubStatus
		if err := p.box.pending(hubCursor{Until: c.until}, &h); err != nil || h.Pending != c.n || h.PendingBytes != int64(c.size) {
			t.Errorf("after %v: %d intervals of %d bytes, %v, want %d of %d", c.until, h.Pending, h.PendingBytes, err, c.n, c.size)
		}
	}
}
