package validate_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

// A test of a Source checks a notification as a hub does.
func ExampleDocument() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	doc, err := validate.Document([]byte(notification("created")), now)
	fmt.Println(doc.Kind, doc.Counts.Created, doc.Until.Format(time.TimeOnly), err)

	_, err = validate.Document([]byte(notification("new")), now)
	if wrong, ok := errors.AsType[*validate.DocumentError](err); ok {
		fmt.Println(wrong.Rule, wrong.Line)
	}
	fmt.Println(err)
	// Output:
	// change 1 11:59:00 <nil>
	// DOC-17 3
	// line 3, column 48: change is "new"; it must be created, updated or deleted (DOC-17)
}

// A notification has to begin where the one before it ended.
func ExampleContinuity() {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }
	head := journal.Head{Topic: "https://source.example/changes/"}
	for _, until := range []int{1, 2, 5, 2} {
		e := journal.Entry{Kind: journal.KindChange, From: at(until - 1), Until: at(until)}
		d := validate.Continuity(head, nil, e, false)
		fmt.Println(d.Result, d.ExpectedFrom.Format(time.TimeOnly))
		if d.Result == validate.Append {
			head = head.Append(head.Place(e, 0))
		}
	}
	// Output:
	// append 00:00:00
	// append 12:01:00
	// gap 12:02:00
	// overlap 12:02:00
}

// A publisher may publish to the topics that one of its patterns matches.
func ExamplePublishers() {
	library, err := validate.ParsePattern("https://library.example/*")
	if err != nil {
		fmt.Println(err)
		return
	}
	publishers := validate.NewPublishers([]validate.Publisher{{
		Name: "library", Topics: []validate.Pattern{library}, TokenSHA256: [][sha256.Size]byte{sha256.Sum256([]byte("its token"))},
	}})
	for _, try := range []struct{ token, topic string }{
		{"its token", "https://library.example/changes/"},
		{"its token", "https://museum.example/changes/"},
		{"a guess", "https://library.example/changes/"},
	} {
		p, err := publishers.ByToken(try.token, try.topic)
		fmt.Printf("%q %v\n", p.Name, err)
	}
	// Output:
	// "library" <nil>
	// "library" the credential does not cover this topic
	// "" the credential is not that of any publisher here
}

// notification is a Change Notification with one change.
func notification(change string) string {
	return `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="2026-01-01T11:58:00Z" until="2026-01-01T11:59:00Z"/>
<url><loc>https://source.example/a</loc><rs:md change="` + change + `" datetime="2026-01-01T11:58:30Z"/></url>
</urlset>`
}
