package delivery

import (
	"math/rand/v2"
	"testing"

	"github.com/rshub/rshub/test/draws"
)

// After any history, with any bodies waiting: there is room for a body of 64 KiB at a quick host
// unless such bodies occupy their share already. The ranks occupy no more than they may. A body
// that waits fits as soon as those are done that it waits for.
func TestRoomAtRandom(t *testing.T) {
	for seed := range draws.Seeds(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := newRoom(int64(1<<18 + r.IntN(1<<(19+r.IntN(9)))))
		type used struct {
			size int64
			rank rank
		}
		var all []used
		var wait [ranks]bool
		waits := func(k rank) bool { return wait[k] }
		var largest int64
		for range 300 {
			for k := range wait {
				wait[k] = r.IntN(3) == 0
			}
			if i := r.IntN(len(all) + 1); i < len(all) && r.IntN(3) == 0 {
				m.move(all[i].size, all[i].rank, unused)
				all[i] = all[len(all)-1]
				all = all[:len(all)-1]
			}
			size := int64(1 + r.IntN(1<<(10+r.IntN(18))))
			k := m.rank(size, health(r.IntN(2)))
			if m.fits(size, unused, k, waits) {
				m.move(size, unused, k)
				all = append(all, used{size, k})
				largest = max(largest, size)
			}
			if i := r.IntN(len(all) + 1); i < len(all) { // a slow host joins
				if to := m.rank(all[i].size, unproven); to > all[i].rank && m.fits(all[i].size, all[i].rank, to, waits) {
					m.move(all[i].size, all[i].rank, to)
					all[i].rank = to
				}
			}
			if m.bytes[0]+smallBody <= m.section && !m.fits(smallBody, unused, 0, waits) {
				t.Fatalf("seed %d: no room for 64 KiB beside %v of %d", seed, m.bytes, m.size)
			}
			if most := max(m.size, largest+3*m.section); m.lent() > most {
				t.Fatalf("seed %d: %v is more than %d", seed, m.bytes, most)
			}
		}
		for _, u := range all {
			m.move(u.size, u.rank, unused)
		}
		if m.lent() != 0 {
			t.Fatalf("seed %d: %v", seed, m.bytes)
		}
		for k := range ranks {
			if only := func(w rank) bool { return w == k }; !m.fits(1<<40, unused, k, only) {
				t.Errorf("seed %d: a body of rank %d never gets room", seed, k)
			}
		}
	}
}
