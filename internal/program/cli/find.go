package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/nearest"
)

const (
	// minPart is how much of an id is enough to look for it.
	minPart = 4
	// maxLooked is how many items a search looks at.
	maxLooked = 100_000
	// maxTopics is how many topics a search for a notification looks in.
	maxTopics = 500
	// maxNamed is how many are named where several may be meant.
	maxNamed = 5
)

// kind is what the API shows by id.
type kind[T any] struct {
	noun  string // "topic"
	path  string // "/api/v1/topics"
	lists string // where people see the ids
	id    func(T) string
	// key is the text that the id is computed from. Nil: ids are random.
	key func(T) string
	// about describes the item beside its id.
	about func(T) string
	// each gives every item to do, as long as that returns nil.
	each func(ctx context.Context, c *client, do func(raw json.RawMessage) error) error
}

// found is one item: as the API gave it, and as this version understands it.
type found[T any] struct {
	raw  json.RawMessage
	item T
	id   string
}

var topics = kind[admin.Topic]{
	noun: "topic", path: "/api/v1/topics", lists: "`rshub topic ls`",
	id:    func(t admin.Topic) string { return t.ID },
	key:   func(t admin.Topic) string { return t.URL },
	about: func(t admin.Topic) string { return t.URL },
	each:  listed("/api/v1/topics"),
}

var subscriptions = kind[admin.Subscription]{
	noun: "subscription", path: "/api/v1/subscriptions", lists: "`rshub sub ls`",
	id:    func(s admin.Subscription) string { return s.ID },
	key:   func(s admin.Subscription) string { return pairKey(s.Topic, s.Callback) },
	about: func(s admin.Subscription) string { return s.Callback + " to " + s.Topic },
	each:  listed("/api/v1/subscriptions"),
}

// pairKey is what the id of a subscription is computed from.
func pairKey(topic, callback string) string { return topic + "\n" + callback }

var notifications = kind[admin.NotificationStatus]{
	noun: "notification", path: "/api/v1/notifications", lists: "`rshub topic notifications TOPIC`",
	id:    func(n admin.NotificationStatus) string { return n.ID },
	about: func(n admin.NotificationStatus) string { return "until " + instant(n.Until) },
	each: func(ctx context.Context, c *client, do func(json.RawMessage) error) error {
		looked := 0
		return topics.each(ctx, c, func(raw json.RawMessage) error {
			if looked++; looked > maxTopics {
				return errEnough
			}
			t, err := decode[admin.Topic](c, raw)
			if err != nil {
				return err
			}
			return listed(topics.path+"/"+url.PathEscape(t.ID)+"/notifications")(ctx, c, do)
		})
	},
}

// listed gives every item of a list.
func listed(path string) func(context.Context, *client, func(json.RawMessage) error) error {
	return func(ctx context.Context, c *client, do func(json.RawMessage) error) error {
		return c.pages(ctx, path, url.Values{}, func(items []json.RawMessage) error {
			for _, raw := range items {
				if err := do(raw); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// urlID is the id of what has a name: its UUIDv5 in the URL namespace.
func urlID(name string) string { return uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String() }

// find returns the item called name: its id, a unique prefix of its id, or the text that the
// id is computed from. If there is none, the error suggests the nearest one.
func (k kind[T]) find(ctx context.Context, c *client, name string) (found[T], error) {
	full, part := "", ""
	switch lower := strings.ToLower(name); {
	case k.keyed(name):
		full = urlID(name)
	case isID(lower):
		full = lower
	case isPart(lower):
		part = lower
	}
	if full != "" {
		f, err := k.get(ctx, c, full)
		if e := (*Error)(nil); err == nil || !errors.As(err, &e) || e.Code != ExitNotFound {
			return f, err
		}
	}
	return k.search(ctx, c, name, part)
}

// keyed reports whether name is not an id but what one is computed from.
func (k kind[T]) keyed(name string) bool { return k.key != nil && strings.Contains(name, "://") }

func (k kind[T]) label(item T) string { return Line(k.id(item) + " (" + k.about(item) + ")") }

func isID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// isPart reports whether s may be the beginning of an id.
func isPart(s string) bool {
	return len(s) >= minPart && len(s) < 36 && isHex(s)
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef-") == "" }

// get asks for an item by its whole id.
func (k kind[T]) get(ctx context.Context, c *client, id string) (found[T], error) {
	f := found[T]{id: id}
	if err := c.get(ctx, k.path+"/"+url.PathEscape(id), nil, &f.raw); err != nil {
		return f, err
	}
	var err error
	f.item, err = decode[T](c, f.raw)
	if err == nil && k.id(f.item) != id {
		err = c.stranger("it returns something else for " + id)
	}
	return f, err
}

func decode[T any](c *client, raw json.RawMessage) (item T, err error) {
	if err = json.Unmarshal(raw, &item); err != nil {
		err = c.foreign(err)
	}
	return item, err
}

// errEnough ends a search.
var errEnough = errors.New("enough")

// search looks in the list for the item whose id begins with part. If there is none, the error
// suggests the item nearest to name.
func (k kind[T]) search(ctx context.Context, c *client, name, part string) (found[T], error) {
	var like []T // those whose id begins with part
	meant, distance, looked := "", 0, 0
	err := k.each(ctx, c, func(raw json.RawMessage) error {
		if looked++; looked > maxLooked {
			return errEnough
		}
		item, err := decode[T](c, raw)
		if err != nil {
			return err
		}
		candidate := k.id(item)
		if part != "" && strings.HasPrefix(candidate, part) {
			if like = append(like, item); len(like) > maxNamed {
				return errEnough
			}
		}
		if k.keyed(name) {
			candidate = k.key(item)
		}
		if d, ok := nearest.Near(name, candidate); ok && (meant == "" || d < distance) {
			meant, distance = k.label(item), d
		}
		return nil
	})
	var none found[T]
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return none, err
	case len(like) == 1 && err == nil:
		return k.get(ctx, c, k.id(like[0]))
	case len(like) > 0:
		format, named := "%s may be the beginning of more than one %s; give more of the id:", []any{part, k.noun}
		for _, item := range like {
			format, named = format+"\n  %s", append(named, k.label(item))
		}
		return none, Fail(ExitUsage, format, named...)
	}
	switch {
	case meant != "":
		meant = "; did you mean " + meant + "?"
	case len(name) < minPart && isHex(strings.ToLower(name)):
		meant = fmt.Sprintf("; give at least %d characters of an id", minPart)
	}
	return none, Fail(ExitNotFound, "there is no %s %s%s\nThe existing ones are: %s", k.noun, Line(strings.ReplaceAll(name, "\n", " ")), meant, k.lists)
}
