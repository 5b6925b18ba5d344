package subscriber

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"math"

	"github.com/rshub/rshub/resourcesync"
)

// What was pulled is stored as it was read, and not as a notification: a Writer refuses
// some of what others write, and nothing of that may get lost.

// packEntries packs the changes of a batch that was pulled.
func packEntries(all []resourcesync.Entry) ([]byte, error) {
	var out bytes.Buffer
	e := gob.NewEncoder(&out)
	for i := range all {
		if err := e.Encode(&all[i]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// entriesOf reads the changes of a batch, one with each call. After the last it returns
// io.EOF.
func entriesOf(b *batch, payload []byte) func() (resourcesync.Entry, error) {
	if !b.Packed {
		// It was within all limits when it came, whatever these are by now.
		limits := resourcesync.Limits{Bytes: int64(len(payload)) + 1, Entries: math.MaxInt}
		return resourcesync.NewNotificationReader(bytes.NewReader(payload), limits).Next
	}
	r := bytes.NewReader(payload) // which gob reads byte by byte, so it ends where gob does
	d := gob.NewDecoder(r)
	return func() (e resourcesync.Entry, err error) {
		if r.Len() == 0 {
			return e, io.EOF
		}
		switch err = d.Decode(&e); {
		case errors.Is(err, io.EOF): // within an entry
			return resourcesync.Entry{}, io.ErrUnexpectedEOF
		case err != nil:
			return resourcesync.Entry{}, err
		}
		return e, nil
	}
}
