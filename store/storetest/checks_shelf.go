package storetest

import (
	"sync"
	"time"
)

// onShelf returns what the shelf has under a name.
func onShelf(k *kit, name string) string {
	k.Helper()
	return string(call(k.h.Kept(k.Context(), name)).must(k, "Kept"))
}

// These check what journal.Shelf promises.
var shelfChecks = []Check{
	{"TheFirstValueIsKept", func(k *kit) {
		k.same("before", onShelf(k, "a"), "")
		var wait sync.WaitGroup
		got := make([]string, 8)
		for i := range got {
			wait.Go(func() {
				value, err := k.h.Keep(k.Context(), "a", []byte{byte(i), 0, 0xff}, 0)
				k.fails(err, nil, "Keep")
				got[i] = string(value)
			})
		}
		wait.Wait()
		for _, value := range got {
			k.same("what each of them got", value, onShelf(k, "a"))
		}
		k.reopen()
		k.same("later", onShelf(k, "a"), got[0])
		k.same("another name", onShelf(k, "b"), "")
		k.ok(k.h.Drop(k.Context(), "a"), "Drop")
		k.ok(k.h.Drop(k.Context(), "a"), "Drop again")
		k.same("after that", onShelf(k, "a"), "")
	}},
	{"ValuesExpire", func(k *kit) {
		for name, life := range map[string]time.Duration{"short": 50 * time.Millisecond, "long": time.Hour, "forever": 0} {
			k.ok(errOf(k.h.Keep(k.Context(), name, []byte(name), life)), "Keep")
		}
		k.eventually("it expired", func() bool { return onShelf(k, "short") == "" })
		again := call(k.h.Keep(k.Context(), "short", []byte("again"), time.Hour)).must(k, "Keep again")
		k.same("the next one", string(again), "again")
		k.ok(errOf(k.h.Keep(k.Context(), "long", []byte("other"), 50*time.Millisecond)), "Keep with another life")
		k.eventually("the latest life counts", func() bool { return onShelf(k, "long") == "" })
		k.same("the one without an end", onShelf(k, "forever"), "forever")
	}},
}
