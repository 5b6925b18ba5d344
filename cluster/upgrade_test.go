package cluster

import (
	"errors"
	"testing"
)

// While a hub of an older version runs, an upgrade cannot be finished, and the error says which hub to
// upgrade or to stop.
func TestFormats(t *testing.T) {
	f := Formats{Written: 1, Newest: 2}
	if !f.Pending() || f.Refused() != nil {
		t.Errorf("an upgrade that can be finished: pending %t, refused: %v", f.Pending(), f.Refused())
	}
	f.Older = []Node{{ID: "3f", Name: "hub-a", Version: "v1.2"}, {ID: "4e"}}
	err := f.Refused()
	if older, ok := errors.AsType[*OlderHubsError](err); !ok || len(older.Hubs) != 2 {
		t.Fatalf("with older hubs: %v", err)
	}
	if want := "hubs of an older version are running: hub-a (v1.2), 4e (of an unknown version). Upgrade or stop them first"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if f = (Formats{Written: 2, Newest: 2}); f.Pending() {
		t.Error("a finished upgrade is pending")
	}
}
