package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/cluster"
)

// The text of an event has the fields of its line that tell a person what happened.
func TestTextOfEvents(t *testing.T) {
	for want, fields := range map[string][]zapcore.Field{
		"it began": {zap.String("event", "x"), zap.String("shards", "0-255")},
		"it began; topic https://example.org/; owned 85": {zap.Int("owned", 85), zap.String("topic", "https://example.org/")},
		"it began; action many; who local; selected retry state=failing: 2 done": {
			zap.String("action", "many"), zap.String("selected", "retry state=failing: 2 done"), zap.String("who", "local"),
		},
		"it began; step 2m0s": {zap.Duration("step", 2*time.Minute)},
		"it began; file a.yaml; removed [b]": {
			zap.String("file", "a.yaml"), zap.Strings("added", nil), zap.Strings("removed", []string{"b"}), zap.Strings("changed", nil),
		},
		"it began; nodes [one two]":                            {zap.Strings("nodes", []string{"one", "two"})},
		"it began; reason " + strings.Repeat("w", 200) + "...": {zap.String("reason", strings.Repeat("w", 201))},
	} {
		if got := textOf("it began", fields); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What happens to the shards of a hub is remembered under the name that the log has for it.
func TestEventsOfShardsAreRemembered(t *testing.T) {
	for _, name := range []string{
		cluster.EventTaken, cluster.EventYielded, cluster.EventKept, cluster.EventLost, cluster.EventTakeFailed,
		cluster.EventNodes, cluster.EventClusterFailed, cluster.EventClusterRecovered,
	} {
		if !slices.Contains(admin.EventNames, name) {
			t.Errorf("%s is not one of admin.EventNames", name)
		}
	}
}
