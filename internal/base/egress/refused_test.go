package egress

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"
)

// What is refused is counted, once for each address, in a word of a closed set.
func TestRefusalsAreTold(t *testing.T) {
	var told []Refusal
	c := newClient(t, Options{Refused: func(r Refusal) { told = append(told, r) }})
	for addr, want := range map[string]Refusal{
		"169.254.169.254": RefusedMetadata, "169.254.0.1": RefusedLinkLocal, "224.0.0.1": RefusedNoHost, "0.0.0.0": RefusedNoHost,
		"127.0.0.1": RefusedLoopback, "localhost": RefusedLoopback, "10.0.0.1": RefusedPrivate, "100.64.0.1": RefusedPrivate,
		"[64:ff9b::808:808]": RefusedTranslation, "[64:ff9b::7f00:1]": RefusedLoopback, "192.0.2.1": RefusedOther, "240.0.0.1": RefusedOther,
		"0x7f.1": RefusedForm, "127.0.0.1,": RefusedForm, "8.8.8.8:25": RefusedPort, "name.example:6379": RefusedPort,
	} {
		told = nil
		if err := c.CheckLiteral("http://" + addr + "/"); err == nil || !slices.Equal(told, []Refusal{want}) {
			t.Errorf("%s: %v, %v", addr, told, err)
		}
	}
	told = nil
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("it was called")
	}
	if !slices.Equal(told, []Refusal{RefusedLoopback}) {
		t.Errorf("a call: %v", told)
	}
	b := NewBudget(1)
	told = nil
	b.Refused = c.refused
	for range 3 {
		begin(b, noon, "host.example:80")
	}
	if !slices.Equal(told, []Refusal{RefusedBudget, RefusedBudget}) {
		t.Errorf("over the budget: %v", told)
	}
}

func TestEveryRefusalHasAWord(t *testing.T) {
	c := newClient(t, Options{})
	addrs := slices.Clone(refusedByDefault)
	for a := range alwaysRefused {
		addrs = append(addrs, a)
	}
	for _, a := range addrs {
		if r := c.policy.check(netip.MustParseAddr(a)); r == nil || !slices.Contains(Refusals(), r.Kind) {
			t.Errorf("%s: %+v", a, r)
		}
	}
}
