package embedstore

import (
	"bytes"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
)

// A value of the entries that was damaged is an error and nothing worse.
func FuzzOpenEntry(f *testing.F) {
	small := journal.Entry{Position: 1, Seq: 1, MediaType: "application/xml", Size: 4}
	large := small
	large.Size = inlineMax + 1
	f.Add(entryValue(small, []byte("body")))
	f.Add(entryValue(large, nil))
	f.Add([]byte{bodyInline, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{bodyFile, 5})
	f.Fuzz(func(t *testing.T, v []byte) {
		e, inline, inFile, err := openEntry(v)
		if err != nil {
			return
		}
		if len(inline) >= len(v) || !bytes.HasSuffix(v, inline) || inFile != (v[0] == bodyFile) {
			t.Errorf("%x: %d bytes inline, in a file: %t", v, len(inline), inFile)
		}
		again, body, _, err := openEntry(entryValue(e, inline))
		if err != nil || !bytes.Equal(body, inline) || again.ID != e.ID || again.Position != e.Position || again.Size != e.Size {
			t.Errorf("%x: %+v, then %+v, %v", v, e, again, err)
		}
	})
}

// Likewise for heads.
func FuzzOpenHead(f *testing.F) {
	key := keyOf(journal.TopicID("https://example.org/"))
	head := journal.Head{Topic: "https://example.org/", Version: "1", Until: time.Unix(1, 0).UTC()}
	f.Add(append([]byte{7}, journal.PackHead(head, journal.Newest)...))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 11))
	f.Fuzz(func(t *testing.T, v []byte) {
		if h, err := openHead(key, v); err != nil && h.Topic != "" {
			t.Errorf("%x: %+v came with %v", v, h, err)
		}
	})
}
