package storetest

import (
	"github.com/google/uuid"

	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// memDisk is what Memory would have written: its records, packed.
type memDisk struct {
	m    *Memory
	keys *seal.Keys
	// Mutants seal with other keys than these, or open with a key missing.
	sealsWith func(what string, keys *seal.Keys) *seal.Keys
	opensAll  bool

	subs, requests map[uuid.UUID][]byte
}

// write packs all records.
func (d *memDisk) write() {
	d.subs, d.requests = map[uuid.UUID][]byte{}, map[uuid.UUID][]byte{}
	for id, rec := range d.m.records {
		if rec.Subscription != nil {
			d.subs[id] = subscriptions.PackSubscription(*rec.Subscription, d.sealsWith("subscription", d.keys))
		}
		if rec.Request != nil {
			d.requests[id] = subscriptions.PackRequest(*rec.Request, d.sealsWith("request", d.keys))
		}
	}
}

// reopen reads all records with other keys, and writes them with those.
func (d *memDisk) reopen(keys *seal.Keys) error {
	defer d.m.lock()()
	d.write()
	for _, b := range d.subs {
		if _, err := subscriptions.UnpackSubscription(b, keys); err != nil && !d.opensAll {
			return err
		}
	}
	for _, b := range d.requests {
		if _, err := subscriptions.UnpackRequest(b, keys); err != nil && !d.opensAll {
			return err
		}
	}
	d.keys = keys
	return nil
}

// stored returns all that is written.
func (d *memDisk) stored() (all []byte) {
	defer d.m.lock()()
	d.write()
	for _, on := range []map[uuid.UUID][]byte{d.subs, d.requests} {
		for _, b := range on {
			all = append(all, b...)
		}
	}
	return all
}

// sealingOf is m as a store that seals, with what a mutant changes.
func sealingOf(m *Memory, mutate func(d *memDisk)) *Sealing {
	d := &memDisk{m: m, sealsWith: func(_ string, keys *seal.Keys) *seal.Keys { return keys }}
	if mutate != nil {
		mutate(d)
	}
	return &Sealing{
		Reopen: func(keys *seal.Keys) (Store, error) { return m, d.reopen(keys) },
		Stored: func() ([]byte, error) { return d.stored(), nil },
	}
}
