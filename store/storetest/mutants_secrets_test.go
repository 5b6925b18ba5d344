package storetest

import (
	"testing"

	"github.com/rshub/rshub/store/seal"
)

// secretMutants are defects in how secrets are stored.
var secretMutants = map[string]func(d *memDisk){
	"the secret of a subscription is not sealed": sealing(func(what string, keys *seal.Keys) *seal.Keys {
		if what == "subscription" {
			return nil
		}
		return keys
	}),
	"the secret of a request is not sealed": sealing(func(what string, keys *seal.Keys) *seal.Keys {
		if what == "request" {
			return nil
		}
		return keys
	}),
	"the last key seals": sealing(func(_ string, keys *seal.Keys) *seal.Keys {
		if keys == twoKeys {
			return oneKey
		}
		return keys
	}),
	"what was stored plain stays so": func(d *memDisk) {
		plain := false
		d.sealsWith = func(_ string, keys *seal.Keys) *seal.Keys {
			if plain = plain || keys == nil; plain {
				return nil
			}
			return keys
		}
	},
	"a missing key is passed over": func(d *memDisk) { d.opensAll = true },
}

func sealing(with func(what string, keys *seal.Keys) *seal.Keys) func(d *memDisk) {
	return func(d *memDisk) { d.sealsWith = with }
}

func TestSuiteCatchesEveryMutantOfSecrets(t *testing.T) {
	for name, defect := range secretMutants {
		t.Run(name, func(t *testing.T) {
			for _, c := range secretChecks {
				m := NewMemory()
				h := m.Harness()
				h.Sealing = sealingOf(m, defect)
				if why := failure(t.Context(), c, h); why != "" {
					t.Logf("%s: %s", c.Name, why)
					return
				}
			}
			t.Error("the whole suite passes")
		})
	}
}
