package subscriber

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/websub"
)

// subscription is one that this subscriber asked for.
type subscription struct {
	Token string `json:"-"` // the last segment of its callback
	Topic string `json:"topic"`
	Hub   string `json:"hub"`
	// Callback is its whole callback, and Asked what Options named when it was asked for.
	Callback string `json:"callback"`
	Asked    string `json:"asked"`
	// Secret signs its deliveries; empty: they are unsigned. A renewal does not change
	// it, so that deliveries under way stay valid.
	Secret string `json:"secret,omitempty"`
	// Wanted is the last request that is not verified yet: subscribe, unsubscribe or
	// empty.
	Wanted websub.Mode `json:"wanted,omitempty"`
	// AskedAt is when it was sent, and AcceptedAt when the hub accepted it.
	AskedAt    time.Time `json:"asked_at,omitzero"`
	AcceptedAt time.Time `json:"accepted_at,omitzero"`
	// VerifiedAt and ExpiresAt are the lease; zero: there is none.
	VerifiedAt time.Time `json:"verified_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	// RenewAt is when the lease is to be renewed.
	RenewAt time.Time `json:"renew_at,omitzero"`
	// Lost says that what it delivered is not in the inbox any more. It is read again when the renewal
	// is verified.
	Lost bool `json:"lost,omitempty"`
	// Denied is the reason with which the hub denied or ended it, and DeniedAt when.
	Denied   string    `json:"denied,omitempty"`
	DeniedAt time.Time `json:"denied_at,omitzero"`
	// EndedAt says that it was unsubscribed: deliveries are answered 410 (DST-11).
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// newSubscription makes a subscription with a new callback.
func (o *Options) newSubscription(topic, hub string) subscription {
	sub := subscription{Token: rand.Text(), Topic: topic, Hub: hub}
	sub.Callback = o.callbackOf(sub.Token)
	if web.Confidential(hub) || o.InsecureSecret {
		sub.Secret = rand.Text() + rand.Text()
	}
	return sub
}

// asked is what Options say about a subscription.
func (o *Options) asked() string { return o.Topic + "\n" + o.Hub }

// sameAsked reports whether two texts of asked name the same topic and the same hub.
func sameAsked(a, b string) bool {
	topicA, hubA, _ := strings.Cut(a, "\n")
	topicB, hubB, _ := strings.Cut(b, "\n")
	return topicA == topicB && sameHub(hubA, hubB)
}

func sameHub(a, b string) bool { return websub.HubURL(a) == websub.HubURL(b) }

// moved reports whether the Options changed since a subscription was asked for.
func (o *Options) moved(b *subscription) bool {
	return !sameAsked(b.Asked, o.asked()) || b.Callback != o.callbackOf(b.Token)
}

// inForce reports whether it has a lease at now.
func (b *subscription) inForce(now time.Time) bool {
	return b.EndedAt.IsZero() && b.ExpiresAt.After(now)
}

func (o *Options) callbackOf(token string) string {
	return strings.TrimSuffix(o.Callback, "/") + "/" + token
}

// readSubscription reads the subscription of a token. Found: there is one.
func readSubscription(tx *boltfile.Tx, token string) (sub subscription, found bool) {
	found = token != "" && tx.Bucket(subsBucket).GetJSON([]byte(token), &sub)
	sub.Token = token
	return sub, found
}

func putSubscription(tx *boltfile.Tx, sub subscription) error {
	return tx.Bucket(subsBucket).PutJSON([]byte(sub.Token), sub)
}

// readSubscriptions reads all of them.
func readSubscriptions(tx *boltfile.Tx) (all []subscription) {
	for token := range tx.Bucket(subsBucket).From(nil) {
		sub, _ := readSubscription(tx, string(token))
		all = append(all, sub)
	}
	return all
}

// changeSubscription changes the stored subscription of a token, if there is one and
// change returns true.
func (in *inbox) changeSubscription(token string, change func(*subscription) bool) error {
	return in.update(func(tx *boltfile.Tx) error {
		sub, found := readSubscription(tx, token)
		if !found || !change(&sub) {
			return nil
		}
		return putSubscription(tx, sub)
	})
}
