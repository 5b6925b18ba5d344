package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
)

// The kinds of faults that a soak needs, of which several faults may be.
const (
	killed        = "kill -9"
	frozen        = "SIGSTOP, SIGCONT"
	diskFull      = "disk full"
	redisKilled   = "Redis killed"
	failedOver    = "Redis failed over"
	tailLost      = "tail lost"
	partitionLost = "partition lost"
	redisFull     = "Redis full"
	networkCut    = "network cut"
	slowHosts     = "slow and hanging hosts"
	wrongNames    = "DNS"
	certificates  = "certificates"
	redisCut      = "cut between hubs and Redis"
	hubRenewed    = "certificate of a hub"
	redisClock    = "clock of Redis"
	hubClock      = "clocks of hubs"
)

// tally counts by kind how often faults were caused and healed.
type tally map[string][2]int

func (t tally) add(kind string, n [2]int) {
	was := t[kind]
	t[kind] = [2]int{was[0] + n[0], was[1] + n[1]}
}

func (t tally) caused(f fault) { t.add(f.group(), [2]int{1, 0}) }
func (t tally) healed(f fault) { t.add(f.group(), [2]int{0, 1}) }

// judge returns which kinds were planned and never caused, and which were not healed as often
// as they were caused.
func (t tally) judge(planned []string) (complaints []string) {
	for _, kind := range planned {
		if t[kind][0] == 0 {
			complaints = append(complaints, fmt.Sprintf("%s: planned, and never caused: make DURATION longer", kind))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		if n := t[kind]; n[0] != n[1] {
			complaints = append(complaints, fmt.Sprintf("%s: caused %d times, and healed %d times", kind, n[0], n[1]))
		}
	}
	return complaints
}

// group is the kind of a fault.
func (f fault) group() string { return cmp.Or(f.kind, f.name) }

// groups sorts faults by their kinds.
func groups(faults []fault) map[string][]fault {
	all := map[string][]fault{}
	for _, f := range faults {
		all[f.group()] = append(all[f.group()], f)
	}
	return all
}

// deck draws faults in rounds. A round has one fault of each kind, in a random order. The faults of a kind
// take turns.
func deck(rnd *rand.Rand, faults []fault) (draw func() fault) {
	all := groups(faults)
	kinds := slices.Sorted(maps.Keys(all))
	for _, kind := range kinds {
		shuffle(rnd, all[kind])
	}
	var round []string
	return func() fault {
		if len(round) == 0 {
			round = slices.Clone(kinds)
			shuffle(rnd, round)
		}
		turn := all[round[0]]
		all[round[0]] = append(turn[1:], turn[0])
		round = round[1:]
		return turn[0]
	}
}

func shuffle[T any](rnd *rand.Rand, all []T) {
	rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
}

// explain notes which gaps a fault that is healed now may have caused.
func (m *nemesis) explain(f fault, begun time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reasons := f.gaps
	if f.loses {
		reasons = append(slices.Clone(reasons), journal.GapRolledBack)
	}
	if m.c.explained == nil {
		m.c.explained = map[string][]span{}
	}
	if f.kind == hubClock {
		m.c.setClocks = append(m.c.setClocks, span{begun, m.now()})
	}
	for _, reason := range reasons {
		m.c.explained[reason] = append(m.c.explained[reason], span{begun, m.now()})
	}
}

// Each kind comes before any comes again, and so does each fault of a kind. The tally notices a kind that
// never came or was not healed.
func TestTallyOfTheNemesis(t *testing.T) {
	faults := []fault{{name: "a", kind: killed}, {name: "b", kind: killed}, {name: "c", kind: frozen}, {name: "d"}}
	for seed := range uint64(20) {
		draw, counts, names := deck(rand.New(rand.NewPCG(seed, 0)), faults), tally{}, map[string]int{}
		for round := range 2 {
			for range 3 {
				f := draw()
				counts.caused(f)
				names[f.name]++
			}
			for _, kind := range []string{killed, frozen, "d"} {
				if counts[kind] != [2]int{round + 1, 0} {
					t.Errorf("seed %d: after round %d %s is %v", seed, round, kind, counts[kind])
				}
			}
		}
		if names["a"] != 1 || names["b"] != 1 {
			t.Errorf("seed %d: of two faults of a kind, both have a turn in two rounds: %v", seed, names)
		}
	}
	good := tally{killed: {2, 2}}
	if got := good.judge([]string{killed}); len(got) > 0 {
		t.Errorf("a good tally: %v", got)
	}
	if got := good.judge([]string{killed, frozen}); len(got) != 1 {
		t.Errorf("a kind that never came: %v", got)
	}
	if got := (tally{killed: {2, 1}}).judge(nil); len(got) != 1 {
		t.Errorf("one that was not healed: %v", got)
	}
}
