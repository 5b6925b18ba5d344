package embedstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
)

// A program reads what a hub has stored. A hub appends in the same way: only if the head has not moved since it was
// read. The example of package hub is a whole hub.
func Example() {
	dir, err := os.MkdirTemp("", "store-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := embedstore.Open(dir, embedstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	_, err = embedstore.Open(dir, embedstore.Options{})
	fmt.Println("open twice:", errors.Is(err, embedstore.ErrLocked))

	ctx, topic := context.Background(), "https://source.example/changes/"
	head, err := store.Head(ctx, topic)
	if err != nil {
		log.Fatal(err)
	}
	e := journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", Body: []byte("news")}
	_, err = store.Append(ctx, time.Now(), topic, e, head.Version)
	fmt.Println("append:", err)
	_, err = store.Append(ctx, time.Now(), topic, e, head.Version)
	fmt.Println("append at an old head:", err)

	// From the beginning, at most 100 entries, with at most 1 MiB of bodies.
	entries, err := store.Read(ctx, topic, journal.Anchor{}, 100, 1<<20)
	for _, e := range entries {
		fmt.Printf("%d %s %q\n", e.Seq, e.MediaType, e.Body)
	}
	fmt.Println("read:", err)
	// Output:
	// open twice: true
	// append: <nil>
	// append at an old head: the topic's head has moved
	// 1 text/plain "news"
	// read: <nil>
}
