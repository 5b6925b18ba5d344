package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rshub/rshub/admin"
)

// What a person reads of an upgrade says what to do next, and finishing it asks first.
func TestUpgrade(t *testing.T) {
	state := admin.Upgrade{State: admin.UpgradePending, Format: 1, Newest: 2}
	finished := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			finished++
			state = admin.Upgrade{State: admin.UpgradeFinished, Format: 2, Newest: 2}
		}
		_ = json.NewEncoder(w).Encode(state)
	}))
	defer s.Close()
	vars := map[string]string{"RSHUB_ADMIN_URL": s.URL}
	status := func(want ...string) {
		t.Helper()
		command(t, vars, "", "upgrade", "status").want(t, ExitOK, want...)
	}
	status("An upgrade is pending. The hubs write format 1,", "After the upgrade they write format 2.", "run: rshub upgrade finish")
	state.OlderHubs = []string{"north (v0.8.0)"}
	status("upgrade or stop them first:\n  north (v0.8.0)\n")
	state.State, state.OlderHubs = admin.UpgradeBegun, nil
	status("was interrupted", "run: rshub upgrade finish")
	command(t, vars, "", "upgrade", "finish").want(t, ExitUsage, "The version before this one can't open the store after that", "--yes")
	if finished != 0 {
		t.Error("it was finished without a question")
	}
	command(t, vars, "", "upgrade", "finish", "--yes").want(t, ExitOK, "No upgrade is pending. The hubs write format 2,")
	command(t, vars, "", "upgrade", "finish").want(t, ExitOK, "No upgrade is pending") // there is nothing to ask
}
