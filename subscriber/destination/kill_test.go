package destination_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/subscriber/destination"
)

func TestMain(m *testing.M) {
	if from := os.Getenv("DESTINATION_TEST_SYNC"); from != "" {
		syncUntilKilled(from, os.Getenv("DESTINATION_TEST_DIR"))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// syncUntilKilled is the process that the kill test kills. It returns when it can't
// go on.
func syncUntilKilled(from, dir string) {
	all, err := destination.ParseShare("100%")
	if err != nil {
		return
	}
	for {
		c, err := destination.Open(destination.Options{
			Source: from, Dir: dir, Allow: egress.DevAllow(), MaxDelete: all, Roots: []destination.Root{{URL: from + "/data/", Dir: "."}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = c.Sync(context.Background()) // what changes meanwhile may fail
		_ = c.Close()
	}
}

// A process that is killed at any point leaves a copy that the next one brings in
// step: 40 times in a row, while files come, change and go, and once there is a baseline
// take the place of folders. A baseline that is taken anew deletes last, so what took
// the place of something else meanwhile would lie beside it.
func TestKilledAtRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const swaps = 10 // the first round with them
	s, dir := newSource(t), t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 60 {
		s.put(fmt.Sprintf("d%d/%d", i%5, i), fmt.Sprintf("first %d", i), 0)
	}
	all, err := destination.ParseShare("100%")
	if err != nil {
		t.Fatal(err)
	}
	inStep := func() *destination.Copy {
		c := s.open(dir, func(o *destination.Options) { o.MaxDelete = all })
		report, err := c.Sync(t.Context())
		if err != nil || !report.InSync() {
			t.Errorf("%v %+v", err, report)
		}
		return c
	}
	after := 0
	for round := range 40 {
		if round == swaps {
			if err := inStep().Close(); err != nil {
				t.Error(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "DESTINATION_TEST_SYNC="+s.URL, "DESTINATION_TEST_DIR="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := time.After(time.Duration(20+r.IntN(180)) * time.Millisecond)
		for waiting := true; waiting; {
			select {
			case <-killed:
				waiting = false
			case <-time.After(5 * time.Millisecond):
				after++
				name, folder := fmt.Sprintf("d%d/%d", r.IntN(5), r.IntN(60)), fmt.Sprintf("swap%d", r.IntN(3))
				what := r.IntN(5)
				if round < swaps {
					what = r.IntN(3)
				}
				switch what {
				case 0, 1:
					s.put(name, fmt.Sprintf("round %d, change %d", round, after), after)
				case 2:
					s.dropIf(name, after)
				case 3: // a file becomes a folder
					s.dropIf(folder, after)
					s.put(folder+"/in", "in a folder", after+1)
					after++
				case 4: // and back
					s.dropIf(folder+"/in", after)
					s.put(folder, "a file", after+1)
					after++
				}
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	c := inStep()
	a, err := c.Audit(t.Context(), false)
	if err != nil || !a.InSync {
		t.Errorf("%v %+v", err, a)
	}
	s.same(dir)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	sum := 0
	for _, body := range s.files {
		sum += len(body)
	}
	if got := total(t, dir, nil); got != fmt.Sprint(sum) {
		t.Errorf("the state says that there are %s bytes, and there are %d", got, sum)
	}
}

func (s *source) dropIf(name string, after int) {
	s.mu.Lock()
	_, there := s.files[name]
	s.mu.Unlock()
	if there {
		s.drop(name, after)
	}
}
