package app

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/admin/ui"
	"github.com/rshub/rshub/delivery"
)

// operator is what the operator's listener shows and does.
type operator struct{ app *App }

// handler is that listener.
func (o operator) handler() http.Handler {
	var token, reader func() string
	if o.app.token != nil {
		token = o.app.token.get
	}
	if o.app.readerToken != nil {
		reader = o.app.readerToken.get
	}
	return admin.New(admin.Options{
		Token: token, ReaderToken: reader, Page: ui.New,
		People:   people(&o.app.cfg),
		Hosts:    append([]string{hostOf(o.app.hubURL)}, o.app.cfg.AllowHost...),
		Refused:  o.app.metrics.Operator,
		Reload:   o.app.reloads.reload,
		Backup:   o.app.backups.make,
		Upgrades: o.app.backend.upgrades(),
		Pprof:    o.app.cfg.Pprof,
		Links:    o.app.links(),
		Ready:    o.app.ready,
		Info:     o.app.info,
		Fleet:    o.app.fleet.now,
		Metrics:  o.app.metrics.Handler(),
		Streams:  o.streams,
		Refusals: o.app.refusals.list, Publishers: o.app.fleet.publishers, Settings: o.listSettings, Answers: o.answers, Tried: o.tried,
		Subscribers: func(topic string) (int, bool) {
			shards := o.app.shards.Load()
			if shards == nil || shards.keeper.Live() > 1 { // each hub knows only its own
				return 0, false
			}
			return shards.dispatcher.Subscribers(topic), true
		},
		Pauses:  o.pauses,
		Control: o.control,
		Now:     o.app.clock.Earliest, // as delivery sees leases
		Topics:  o.app.store, Pings: o.app.store, Subscriptions: o.app.store,
		Log: o.app.log,
	})
}

func (o operator) listSettings() []admin.Setting {
	list := make([]admin.Setting, 0, len(o.app.settings))
	for _, s := range o.app.settings {
		list = append(list, admin.Setting{Name: s.Name, Value: s.Text(), About: s.Auto, From: s.From, Default: s.Default})
	}
	return list
}

// streams returns open streams of this hub.
func (o operator) streams(topic string, after uint64, most int) (list []admin.Stream, more bool) {
	h := o.app.history.Load()
	if h == nil {
		return nil, false
	}
	open, more := h.List(topic, after, most)
	for _, st := range open {
		list = append(list, admin.Stream{
			ID: st.ID, Node: o.app.self().ID, Topics: st.Topics, Requester: st.Address, Reader: st.Reader, OpenedAt: st.Since.UTC(),
			Notifications: st.Notifications, Gaps: st.Gaps, Bytes: st.Bytes, Behind: st.Behind, BlockedSeconds: st.Blocked.Seconds(),
		})
	}
	return list, more
}

// answers returns what a callback answered to its latest failed deliveries.
func (o operator) answers(id uuid.UUID) []admin.Answer {
	d := o.app.dispatcher.Load()
	if d == nil {
		return nil
	}
	list, _ := convert(d.Answers(id), func(one delivery.Answer) (admin.Answer, error) { return admin.Answer(one), nil })
	return list
}

// tried returns why the last try to verify the request for a subscription failed, and when the next
// one is due.
func (o operator) tried(id uuid.UUID) (failure string, next time.Time) {
	if s := o.app.service.Load(); s != nil {
		return s.Tried(id)
	}
	return "", next
}

// control returns what carries out the operator's changes. It is nil during the start.
func (o operator) control() admin.Control {
	if s := o.app.service.Load(); s != nil {
		return s
	}
	return nil
}

// pauses returns why the subscriptions of a topic wait, as far as this hub delivers to them.
func (o operator) pauses(topic string) (out []admin.Pause) {
	d := o.app.dispatcher.Load()
	if d == nil {
		return nil
	}
	for _, tr := range d.Troubles(topic) {
		p := admin.Pause{
			Reason: "store", Error: tr.Err.Error(), Since: tr.Since.UTC(), NextLookAt: tr.NextLook,
			Seq: tr.Seq, PassedOver: tr.PassedOver,
		}
		if tr.Damaged {
			p.Reason, p.PassedOverAt = "damaged", tr.PassedOverAt.UTC()
		}
		if tr.NotificationID != uuid.Nil {
			p.NotificationID = tr.NotificationID.String()
		}
		out = append(out, p)
	}
	return out
}
