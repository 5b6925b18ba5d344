package relay_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/rshub/rshub/publisher/relay"
	"github.com/rshub/rshub/publisher/source"
)

// An application in another language writes its changes to this process, a line of JSON each, and reads the answers. In
// a program, Record is the method Announce of a source.Source.
func Example() {
	last := uint64(0)
	r := relay.New(relay.Options{
		Prefixes: []string{"https://example.org/books/"},
		Record: func(all []source.Announcement) (receipts []source.Receipt, err error) {
			for _, a := range all {
				last += uint64(len(a.Changes))
				fmt.Println("recorded:", a.Changes[0].Change, a.Changes[0].Resource.Key())
				receipts = append(receipts, source.Receipt{Last: last, At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Changes: len(a.Changes)})
			}
			return receipts, nil
		},
	})
	lines := strings.NewReader(`{"change": "updated", "url": "https://example.org/books/moby-dick"}
{"change": "updated", "url": "https://example.com/"}
`)
	if err := r.Lines(lines, os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// recorded: updated https://example.org/books/moby-dick
	// {"seq":1,"changes":1,"datetime":"2026-01-01T00:00:00Z"}
	// {"line":2,"error":"\"https://example.com/\" is not a resource of this Source: its address has to begin with https://example.org/books/"}
}
