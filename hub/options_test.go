package hub

import (
	"testing"
	"time"

	"github.com/rshub/rshub/store/storetest"
)

// New refuses limits that limit nothing, and a right to read that does not exist: it would let
// anyone read.
func TestNewRefusesNonsense(t *testing.T) {
	for name, set := range map[string]func(*Options){
		"MaxBody":          func(o *Options) { o.MaxBody = -1 },
		"MaxPublishBytes":  func(o *Options) { o.MaxPublishBytes = -1 },
		"MaxFetchBytes":    func(o *Options) { o.MaxFetchBytes = -1 },
		"PublishRate":      func(o *Options) { o.PublishRate = Rate{-1, time.Minute} },
		"SubscribeRate":    func(o *Options) { o.SubscribeRate = Rate{600, -time.Minute} },
		"PublishBytes":     func(o *Options) { o.PublishBytes = Rate{Events: 600} },
		"ReadBytes":        func(o *Options) { o.ReadBytes = Rate{-1, time.Minute} },
		"ReadTotal":        func(o *Options) { o.ReadTotal = Rate{-1, time.Minute} },
		"Read":             func(o *Options) { o.Read = "tokens" },
		"nothing":          func(*Options) {},
		"nothing, no rate": func(o *Options) { o.PublishRate, o.Read = Rate{0, time.Minute}, ReadToken },
	} {
		o := Options{HubURL: hubURL, Journal: &memory{}, Pings: storetest.NewMemory(), Subscriptions: &acceptor{}, Topics: &topics{}}
		set(&o)
		if _, err := New(o); (err == nil) != (name[:3] == "not") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
