package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestUpgrades(t *testing.T) {
	state := Upgrade{State: UpgradePending, Format: 1, Newest: 2, OlderHubs: []string{"north (v0.8.0)"}}
	var failure error
	finished := 0
	url := start(t, Options{Token: held("t"), ReaderToken: held("r"), Upgrades: &Upgrades{
		Status: func(context.Context) (Upgrade, error) { return state, nil },
		Finish: func(context.Context) error {
			if finished++; failure == nil {
				state = Upgrade{State: UpgradeFinished, Format: 2, Newest: 2}
			}
			return failure
		},
	}}) + "/api/v1/upgrade"
	resp, body := send(t, http.MethodGet, url, "Authorization: Bearer r")
	if want := `{"state":"pending","format":1,"newest":2,"older_hubs":["north (v0.8.0)"]}`; resp.status != http.StatusOK || strings.TrimSpace(body) != want {
		t.Errorf("%d %s", resp.status, body)
	}
	resp, body = send(t, http.MethodPost, url, "Authorization: Bearer r")
	if wantProblem(t, resp, body, http.StatusForbidden, "reader"); finished != 0 {
		t.Error("a reader finished the upgrade")
	}
	for want, err := range map[int]error{
		http.StatusConflict: fmt.Errorf("%w: hubs of an older version are running: north (v0.8.0)", ErrUpgradeRefused), http.StatusServiceUnavailable: errors.New("the store is away"),
	} {
		failure = err
		resp, body = send(t, http.MethodPost, url, "Authorization: Bearer t")
		if wantProblem(t, resp, body, want, ""); want == http.StatusConflict && !strings.Contains(body, "north (v0.8.0)") {
			t.Errorf("%s", body)
		}
	}
	failure = nil
	if resp, body = send(t, http.MethodPost, url, "Authorization: Bearer t"); resp.status != http.StatusOK || !strings.Contains(body, UpgradeFinished) {
		t.Errorf("%d %s", resp.status, body)
	}
}
