package ui

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/resourcesync"
)

// words are the functions that templates use.
var words = template.FuncMap{
	"ago": ago, "in": in, "seconds": seconds, "clock": clockTime, "bytes": quantity.BytesText,
	"size": func(n uint64) string { return quantity.BytesText(int64(min(n, math.MaxInt64))) }, "rate": quantity.RateText,
	"changes": func(c journal.Counts) string { return resourcesync.Counts(c).Words() },
	"count":   count, "number": number, "reason": reason, "cause": admin.Cause, "states": func() []string { return []string{"pending", "active", "failing", "paused", "ended"} },
	"kinds":   func() []string { return admin.RefusalKinds },
	"filters": func() []string { return filters }, "manyActions": func() []many { return manyActions }, "host": host, "callback": callback, "short": short, "sentence": sentence, "topicID": topicID, "percent": percent, "plain": plain,
}

// seconds is a number of seconds for a person.
func seconds(s float64) string {
	return quantity.SpanText(time.Duration(min(s, math.MaxInt64/2/float64(time.Second)) * float64(time.Second)))
}

// ago is how long something is past, and in how long it is to come.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return quantity.SpanText(time.Since(t)) + " ago"
}

func in(t time.Time) string {
	if d := time.Until(t); d >= time.Second {
		return "in " + quantity.SpanText(d)
	}
	return "now"
}

// clockTime is an instant of today by the clock, and any other with its date; in UTC.
func clockTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	if t.UTC().Format(time.DateOnly) == time.Now().UTC().Format(time.DateOnly) {
		return t.UTC().Format("15:04:05")
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// plain is an instant in full.
func plain(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// count is a whole number of any type with what it counts.
func count(n any, one, many string) string {
	if text := number(n); text != "1" {
		return text + " " + many
	}
	return "1 " + one
}

// number is a whole number of any type.
func number(n any) string {
	v, err := strconv.ParseInt(fmt.Sprint(n), 10, 64)
	if err != nil { // there is none that large
		return fmt.Sprint(n)
	}
	return quantity.NumberText(v)
}

// reasons are the reasons of gaps in words.
var reasons = map[string]string{
	journal.GapRetention:   "too old to be kept, before it was delivered",
	journal.GapGaveUp:      "given up on",
	journal.GapGone:        "the callback answered 410",
	journal.GapUnsubscribe: "unsubscribed",
	journal.GapExpired:     "the lease ran out",
	journal.GapRemoved:     "ended by the operator",
	journal.GapSource:      "left out by the Source",
	journal.GapReset:       "the operator reset the topic",
	journal.GapRolledBack:  "lost by the store",
	journal.GapDamaged:     "the stored notification is damaged",
}

// reason is the reason of a gap, in words and as the API has it.
func reason(r string) string {
	if text := reasons[r]; text != "" {
		return text + " (" + r + ")"
	}
	return r
}

// percent is the part that n is of the whole.
func percent(n, whole int64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(whole))
}

// host is the host of a callback, as the filter of subscriptions takes it.
func host(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	return u.Host
}

// Lists show so many bytes of a URL, and of a sentence.
const (
	maxURL      = 200
	maxSentence = 400
)

// short is the beginning of a URL. The page about one thing has it whole.
func short(text string) string { return excerpt.Cut(text, maxURL) }

// sentence is the beginning of a sentence.
func sentence(text string) string { return excerpt.Cut(text, maxSentence) }

// topicID is the id of a topic.
func topicID(topic string) string { return journal.TopicID(topic).String() }

// maxCallback is how many characters of a callback lists show.
const maxCallback = 60

// callback is a callback in short: without its scheme, and without its query, which may
// hold a secret.
func callback(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	text := u.Host + strings.TrimSuffix(u.EscapedPath(), "/")
	if len(text) > maxCallback { // it is ASCII
		text = text[:maxCallback-1] + "…"
	}
	return text
}
