package delivery

import (
	"context"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// sender makes deliveries. MaxInflight goroutines run it.
type sender struct {
	sched    *schedulers // whose turn it is
	journal  Journal
	bodies   *bodies
	troubles *troubles
	rewinder *rewinder
	shards   *shards
	client   client
	commits  results
	report   *reporter
	answers  *keptAnswers
}

// delivery is one delivery on its way through the stages. Each stage fills in its part.
type delivery struct {
	job
	body *body                // from find on
	out  outcome              // from attempt on
	head journal.Head         // read before an end is decided
	dec  Decision             // from decide on
	done subscriptions.Commit // what to store of dec
}

// number is the attempt's, from 1.
func (d *delivery) number() uint32 { return d.cursor.failures(&d.body.entry) + 1 }

// A stage does one thing about a delivery. False: the delivery ends here, and the stage has
// put its lane back.
type stage func(*sender, context.Context, *delivery) bool

// stages are what is done about each delivery, in this order. Each is in the file with its name.
var stages = [...]stage{
	(*sender).find,    // the next notification, from memory or the journal
	(*sender).claim,   // a sender for a large body
	(*sender).confirm, // the subscription, its lease and its shard are as they were
	(*sender).attempt, // one HTTP exchange
	(*sender).decide,  // what follows from the outcome; the lane's cursor moves
	(*sender).commit,  // it is stored and reported, and the lane put back
}

// run makes the deliveries whose turn it is until there are no more.
func (s *sender) run(ctx context.Context) {
	var d delivery
	for {
		j, ok := s.sched.next()
		if !ok {
			return
		}
		d = delivery{job: j}
		s.deliver(ctx, &d)
		s.sched.resume()
		s.bodies.resume()
	}
}

func (s *sender) deliver(ctx context.Context, d *delivery) {
	for _, stage := range stages {
		if !stage(s, ctx, d) {
			break
		}
	}
	if d.body != nil {
		s.bodies.put(d.body, d.lane.host, d.health())
	}
}
