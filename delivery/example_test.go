package delivery_test

import (
	"fmt"
	"time"

	"github.com/rshub/rshub/delivery"
)

// What becomes of a notification that a callback does not accept. The example of package hub runs a Dispatcher.
func ExampleDecide() {
	first := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	state, now := delivery.State{FirstAttemptAt: first}, first
	for _, r := range []delivery.Result{{Status: 500}, {Status: 503, RetryAfter: time.Minute}, {Status: 500}, {Status: 200}, {Status: 410}} {
		d := delivery.Decide(r, state, delivery.Policy{}, now, 0.5)
		fmt.Println(r.Status, d.Action)
		if d.Action == delivery.Retry {
			fmt.Println("  after", d.At.Sub(now))
			state.Attempt, state.Step, now = state.Attempt+1, d.Step, d.At
		}
	}
	// Output:
	// 500 retry
	//   after 5s
	// 503 retry
	//   after 1m0s
	// 500 retry
	//   after 2m0s
	// 200 delivered
	// 410 ended
}
