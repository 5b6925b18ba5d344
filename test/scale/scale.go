// Package scale calculates how many hubs and Redis masters many subscriptions need, from what one
// delivery and one subscription cost. docs/scale.md has the results, and BenchmarkScale of package
// delivery compares them with a simulation.
package scale

import (
	"math"
	"time"

	"github.com/rshub/rshub/cluster"
)

// Terms are what one delivery and one subscription cost, as measured, and what was chosen.
type Terms struct {
	Rate       float64       // deliveries a second of a core of a hub
	Held       time.Duration // how long a delivery has the lock of the scheduler
	RedisCPU   time.Duration // of a core of a master for a delivery
	RedisLoad  float64       // the fraction of its core that a master may be busy
	Commands   float64       // of Redis for a delivery
	Heap       float64       // bytes of a hub for a subscription; twice that with the garbage
	Redis      float64       // bytes of Redis for a subscription
	Sent       float64       // bytes that a delivery of 1 KB sends, with TCP and IP
	Received   float64       // bytes of its answer, with TCP and IP
	Read       time.Duration // for a subscription, when a hub acquires its shard
	Lease      time.Duration // --owner-lease
	AnswerTime time.Duration // how long a callback takes to answer
}

// Measured are the terms of docs/scale.md.
var Measured = Terms{
	Rate: 15_000, Held: 1150 * time.Nanosecond,
	RedisCPU: 2500 * time.Nanosecond, RedisLoad: 0.6, Commands: 0.047,
	Heap: 271, Redis: 430, Sent: 1540, Received: 170,
	Read: 8 * time.Microsecond, Lease: 30 * time.Second, AnswerTime: 20 * time.Millisecond,
}

// CoresOfScheduler is for how many cores a hub has a scheduler, as in package delivery.
const CoresOfScheduler = 2

// Load is what is asked for.
type Load struct {
	Name          string
	Subscriptions float64
	Deliveries    float64 // a second
}

// Plan is what a load needs if hubs have so many cores.
type Plan struct {
	Cores      int
	ShardRate  float64       // deliveries a second for a shard
	Shards     int           // of a hub, at most
	Hubs       int           // without a spare one
	HubRate    float64       // deliveries a second of the fullest hub
	Schedulers int           // of a hub
	LockShare  float64       // how much of the time each of them is locked
	InFlight   float64       // --max-inflight: exchanges at a time of the fullest hub
	HubMemory  float64       // bytes of the fullest hub for subscriptions
	HubNetwork float64       // bits a second that the fullest hub sends
	Masters    int           // of Redis
	Commands   float64       // a second, of all masters
	Memory     float64       // bytes of all masters for subscriptions
	Moved      int           // shards that move if a hub dies
	TakeOver   time.Duration // until the hub that gets most of them has read them
}

// Plan calculates what a load needs. Shards are whole: a hub has one more than another, or as many.
// The zero Hubs says that one shard is too much for a hub of so many cores.
func (t Terms) Plan(l Load, cores int) Plan {
	p := Plan{Cores: cores, ShardRate: l.Deliveries / cluster.Shards}
	p.Shards = min(int(t.Rate*float64(cores)/p.ShardRate), cluster.Shards)
	if p.Shards == 0 {
		return p
	}
	p.Hubs = ceil(cluster.Shards / float64(p.Shards))
	p.Shards = ceil(cluster.Shards / float64(p.Hubs))
	p.HubRate = p.ShardRate * float64(p.Shards)
	p.Schedulers = ceil(float64(cores) / CoresOfScheduler)
	p.LockShare = p.HubRate * t.Held.Seconds() / float64(p.Schedulers)
	p.InFlight = p.HubRate * t.AnswerTime.Seconds()
	perShard := l.Subscriptions / cluster.Shards
	p.HubMemory = 2 * t.Heap * perShard * float64(p.Shards)
	p.HubNetwork = 8 * t.Sent * p.HubRate
	p.Masters = max(1, ceil(l.Deliveries*t.RedisCPU.Seconds()/t.RedisLoad))
	p.Commands = l.Deliveries * t.Commands
	p.Memory = t.Redis * l.Subscriptions
	p.Moved = p.Shards
	gets := cluster.Shards // if it is the only hub, it starts again
	if p.Hubs > 1 {
		gets = ceil(float64(p.Moved) / float64(p.Hubs-1))
	}
	p.TakeOver = t.Lease + time.Duration(float64(gets)*perShard*float64(t.Read))
	return p
}

func ceil(x float64) int { return int(math.Ceil(x - 1e-9)) }
