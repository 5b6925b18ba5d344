package websub

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxSecret is the longest hub.secret, in bytes of its UTF-8 (HUB-07).
	MaxSecret = 199
	// MaxPing is how many different topics one ping may name.
	MaxPing = 100
	// MaxLease stands for every hub.lease_seconds that is too large for a Duration. It is
	// the most whole seconds of a Duration.
	MaxLease = math.MaxInt64 / time.Second * time.Second
)

// SubscribeRequest is a request to subscribe or to unsubscribe, checked. Topic and
// Callback are as they were sent, decoded once and not normalised. The two together,
// compared byte by byte, identify the subscription (HUB-11).
type SubscribeRequest struct {
	Mode            Mode // ModeSubscribe or ModeUnsubscribe
	Topic, Callback string
	Secret          string // empty: deliveries are not signed
	// Lease is the requested lease in positive whole seconds, if HasLease is set. A hub
	// clamps it into the range that it grants. It is never set when unsubscribing
	// (HUB-06).
	Lease    time.Duration
	HasLease bool
}

// ParseSubscribe reads a request to subscribe or unsubscribe out of a form. An
// error is a *FormError. Parameters that it does not know are ignored (HUB-09).
func ParseSubscribe(f Form) (SubscribeRequest, error) {
	var r SubscribeRequest
	var err error
	if r.Mode, err = f.Mode(); err != nil {
		return SubscribeRequest{}, err
	}
	if r.Mode == ModePublish {
		return SubscribeRequest{}, formError(ParamMode, "is publish: send subscribe or unsubscribe")
	}
	if r.Callback, err = f.url(ParamCallback, "send the URL to which the hub shall deliver notifications"); err != nil {
		return SubscribeRequest{}, err
	}
	if r.Topic, err = f.url(ParamTopic, "send the topic's URL, exactly as its Link rel=\"self\" has it"); err != nil {
		return SubscribeRequest{}, err
	}
	if r.Secret, _, err = f.One(ParamSecret); err != nil {
		return SubscribeRequest{}, err
	}
	if n := len(r.Secret); n > MaxSecret {
		return SubscribeRequest{}, formError(ParamSecret, "is %d bytes long: send a secret of at most %d bytes", n, MaxSecret)
	}
	if r.Mode == ModeUnsubscribe {
		return r, nil
	}
	if r.Lease, r.HasLease, err = f.lease(); err != nil {
		return SubscribeRequest{}, err
	}
	return r, nil
}

// url returns a parameter that has to be there and to be a URL.
func (f Form) url(param, send string) (string, error) {
	raw, sent, err := f.One(param)
	if err != nil {
		return "", err
	}
	if !sent || raw == "" {
		return "", formError(param, "is missing in the body of the request: %s", send)
	}
	return raw, CheckURL(param, raw)
}

// lease returns hub.lease_seconds and whether it was sent (HUB-05). An empty one counts
// as not sent: clients send it for an empty field. Anything but digits is refused. A
// number that is only out of range is left for the hub to clamp, so one that is too large
// for a Duration becomes MaxLease.
func (f Form) lease() (lease time.Duration, sent bool, err error) {
	value, sent, err := f.One(ParamLeaseSeconds)
	if !sent || err != nil || value == "" {
		return 0, false, err
	}
	const send = "send a whole number of seconds greater than 0, in digits alone, or leave it out for the hub's default"
	digits := strings.TrimLeft(value, "0")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false, formError(ParamLeaseSeconds, "is %s: %s", quote(value, 40), send)
	}
	// The only error left to ParseInt is that the number is out of range.
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seconds > int64(MaxLease/time.Second) {
		return MaxLease, true, nil
	}
	return time.Duration(seconds) * time.Second, true, nil
}

// ParsePing returns the topics that a form with hub.mode=publish names in
// hub.url and hub.topic, each once, in the order they came (HUB-60). An error
// is a *FormError.
func ParsePing(f Form) (topics []string, err error) {
	for _, p := range f.params {
		if p.Name != ParamURL && p.Name != ParamTopic || slices.Contains(topics, p.Value) {
			continue
		}
		if err := CheckURL(p.Name, p.Value); err != nil {
			return nil, err
		}
		if len(topics) == MaxPing {
			return nil, formError("", "names more than %d topics: send the others in another request", MaxPing)
		}
		topics = append(topics, p.Value)
	}
	if topics == nil {
		return nil, f.noTopic()
	}
	return topics, nil
}

// noTopic returns why a ping names no topic. Other hubs read several topics as a list, such
// as hub.url[] or hub.url[0].
func (f Form) noTopic() error {
	send := "names no topic: send the URL of what has changed as %s or %s"
	for _, p := range f.params {
		if name, _, list := strings.Cut(p.Name, "["); list && (name == ParamURL || name == ParamTopic) {
			send += ", without brackets, and once more for each further topic"
			break
		}
	}
	return formError("", send, ParamURL, ParamTopic)
}
