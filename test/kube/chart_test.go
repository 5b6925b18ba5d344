package kube

import (
	"maps"
	"slices"
	"testing"
)

// The chart on a cluster.
func TestChart(t *testing.T) {
	if *servers == "" {
		t.Skip("needs -servers: `make kube`")
	}
	c := startCluster(t)
	all := sets(t)
	names := slices.Sorted(maps.Keys(all))
	c.define(t)
	c.storage(t, "fast", false)
	c.object(t, "", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}`)
	t.Run("accepted", func(t *testing.T) {
		c.namespace(t, "dry")
		for _, name := range names {
			t.Run(name, func(t *testing.T) { c.accepted(t, string(all[name])) })
		}
	})
	t.Run("installed", func(t *testing.T) {
		for _, name := range names {
			if name != "ends" { // its addresses lead nowhere; see below
				t.Run(name, func(t *testing.T) { c.installed(t, name, string(all[name])) })
			}
		}
	})
	t.Run("page", c.page)
	t.Run("ends", c.ends)
	t.Run("volume", func(t *testing.T) { c.life(t, "life-volume", 1, 1) })
	t.Run("redis", func(t *testing.T) {
		c.life(t, "life-redis", 2, 3, "--set=replicaCount=3", "--set=redis.url=redis://redis:6379")
	})
}
