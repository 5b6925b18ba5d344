package resourcesync_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

const notification = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://example.org/books/capabilitylist.xml"/>
  <rs:md capability="change-notification"
         from="2026-11-21T09:00:00Z" until="2026-11-21T10:00:00Z"/>
  <url>
    <loc>https://example.org/books/1</loc>
    <rs:md change="updated" datetime="2026-11-21T09:12:30Z" length="5120" type="text/html"/>
    <rs:ln rel="canonical" href="https://example.org/books/one"/>
  </url>
  <url>
    <loc>https://example.org/books/2</loc>
    <rs:md change="deleted" datetime="2026-11-21T09:40:00Z"/>
  </url>
</urlset>
`

// Is a document a change notification, and which interval does it cover?
func ExampleCheckNotification() {
	n, err := resourcesync.CheckNotification(strings.NewReader(notification), resourcesync.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.Capability, resourcesync.FormatDatetime(n.From), resourcesync.FormatDatetime(n.Until))
	fmt.Println(n.Entries, "entries:", n.Counts.Updated, "updated,", n.Counts.Deleted, "deleted")
	// Output:
	// change-notification 2026-11-21T09:00:00Z 2026-11-21T10:00:00Z
	// 2 entries: 1 updated, 1 deleted
}

// A refusal names the place, what is wrong there, and the rule.
func ExampleCheckNotification_refused() {
	broken := strings.Replace(notification, `change="deleted"`, `change="removed"`, 1)
	_, err := resourcesync.CheckNotification(strings.NewReader(broken), resourcesync.Limits{})
	fmt.Println(err)

	var refused *resourcesync.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Kind, refused.Rule, refused.Line, refused.Column)
	}
	// Output:
	// line 14, column 12: change is "removed"; it must be created, updated or deleted (DOC-17)
	// bad document DOC-17 14 12
}

// The changes one by one. The document may be long; only one is in memory.
func ExampleNotificationReader() {
	r := resourcesync.NewNotificationReader(strings.NewReader(notification), resourcesync.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Change, e.Loc, len(e.Links))
	}
	fmt.Println(r.Notification().Up)
	// Output:
	// updated https://example.org/books/1 1
	// deleted https://example.org/books/2 0
	// https://example.org/books/capabilitylist.xml
}

func ExampleParseDatetime() {
	for _, s := range []string{"2026-11", "2026-11-21T10:00+01:00", "2026-11-21T9:00:00Z"} {
		t, err := resourcesync.ParseDatetime(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(resourcesync.FormatDatetime(t))
	}
	// Output:
	// 2026-11-01T00:00:00Z
	// 2026-11-21T09:00:00Z
	// "2026-11-21T9:00:00Z" is not a W3C datetime: use YYYY-MM-DDThh:mm:ssZ
}

func ExampleFormatDatetime() {
	cet := time.FixedZone("CET", 60*60)
	fmt.Println(resourcesync.FormatDatetime(time.Date(2026, 11, 21, 10, 0, 0, 250_000_000, cet)))
	// Output: 2026-11-21T09:00:00.25Z
}
