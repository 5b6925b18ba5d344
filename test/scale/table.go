package scale

import (
	"fmt"
	"strings"
	"time"
)

// The loads of docs/scale.md.
var (
	Few  = Load{Name: "2 changes a second, each for the 10,000 subscriptions of its topic", Subscriptions: 1e7, Deliveries: 2e4}
	Many = Load{Name: "2 changes a second for every subscription", Subscriptions: 1e7, Deliveries: 2e7}
)

// Table writes terms and what follows from them as Markdown.
func (t Terms) Table() string {
	var out strings.Builder
	line := func(cells ...string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	line("term", "value", "measured by")
	line("---", "---", "---")
	line("deliveries a second of a core of a hub", number(t.Rate), "`FanOut`: see below")
	line("a delivery has the lock of the scheduler for", t.Held.String(), "`Lock`")
	line("processor time of Redis for a delivery", t.RedisCPU.String(), "`RedisFanOut`")
	line("commands of Redis for a delivery", fmt.Sprint(t.Commands), "`RedisFanOut`")
	line("memory of a hub for a subscription, twice that with garbage", number(t.Heap)+" B", "`RedisLoad`")
	line("memory of Redis for a subscription", number(t.Redis)+" B", "`RedisLoad`")
	line("a delivery of 1 KB sends, with TCP and IP", number(t.Sent)+" B", "`Wire`, and 52 B for each of 2 packets")
	line("reading a subscription when its shard moves", t.Read.String(), "`RedisLoad`")
	line("a callback answers after", t.AnswerTime.String(), "assumed")
	line("`--owner-lease`", t.Lease.String(), "the default")
	line("a master of Redis may be busy for", fmt.Sprintf("%.0f %%", 100*t.RedisLoad), "chosen")
	out.WriteString("\n")

	line("what", Few.Name, Many.Name, "the same with 64 cores")
	line("---", "---", "---", "---")
	plans := []Plan{t.Plan(Few, 16), t.Plan(Many, 16), t.Plan(Many, 64)}
	each := func(what string, of func(Plan) string) {
		cells := []string{what}
		for _, p := range plans {
			cells = append(cells, of(p))
		}
		line(cells...)
	}
	each("cores of a hub", func(p Plan) string { return fmt.Sprint(p.Cores) })
	each("deliveries a second for a shard", func(p Plan) string { return number(p.ShardRate) })
	each("**hubs**, and one to spare", func(p Plan) string { return fmt.Sprintf("**%d** + 1", p.Hubs) })
	each("shards of the fullest hub", func(p Plan) string { return fmt.Sprint(p.Shards) })
	each("its deliveries a second", func(p Plan) string { return number(p.HubRate) })
	each("its schedulers", func(p Plan) string { return fmt.Sprint(p.Schedulers) })
	each("the lock of each of them is held", func(p Plan) string { return fmt.Sprintf("%.0f %%", 100*p.LockShare) })
	each("its exchanges at a time (`--max-inflight`)", func(p Plan) string { return number(p.InFlight) })
	each("its memory for subscriptions", func(p Plan) string { return fmt.Sprintf("%.2g GB", p.HubMemory/1e9) })
	each("it sends", func(p Plan) string { return fmt.Sprintf("%.2g Gbit/s", p.HubNetwork/1e9) })
	each("**masters of Redis**", func(p Plan) string { return fmt.Sprintf("**%d**", p.Masters) })
	each("their commands a second", func(p Plan) string { return number(p.Commands) })
	each("their memory for subscriptions", func(p Plan) string { return fmt.Sprintf("%.2g GB", p.Memory/1e9) })
	each("shards that move if a hub dies", func(p Plan) string { return fmt.Sprint(p.Moved) })
	each("until they are read elsewhere", func(p Plan) string { return p.TakeOver.Round(time.Second / 10).String() })
	return out.String()
}

// number writes a number with separators between the thousands, and without a fraction.
func number(x float64) string {
	text := fmt.Sprintf("%.0f", x)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
