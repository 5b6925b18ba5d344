package transfer

import (
	"encoding/hex"
	"errors"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// hash is a SHA-256, in hexadecimal.
type hash [32]byte

// MarshalText implements encoding.TextMarshaler.
func (h hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return errors.New("a SHA-256 has 64 hexadecimal digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

func ofAnchor(a journal.Anchor) anchorLine {
	return anchorLine{Position: uint64(a.Position), Nonce: uint64(a.Nonce), Seq: a.Seq, Until: utc(a.Until)}
}

func (l anchorLine) anchor() journal.Anchor {
	return journal.Anchor{Position: journal.Position(l.Position), Nonce: journal.Nonce(l.Nonce), Seq: l.Seq, Until: utc(l.Until)}
}

// utc is an instant as stores return it.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Round(0).UTC()
}

func ofGaps(gaps []journal.Gap) []gapLine {
	out := make([]gapLine, 0, len(gaps))
	for _, g := range gaps {
		out = append(out, gapLine{utc(g.From), utc(g.Until), g.Count, g.Reason, utc(g.At), uint64(g.Position), g.Seq, ofAnchor(g.After)})
	}
	return out
}

func gapsOf(lines []gapLine) []journal.Gap {
	var out []journal.Gap
	for _, l := range lines {
		out = append(out, journal.Gap{
			From: utc(l.From), Until: utc(l.Until), Count: l.Count, Reason: l.Reason, At: utc(l.At),
			Position: journal.Position(l.Position), Seq: l.Seq, After: l.After.anchor(),
		})
	}
	return out
}

func ofTopic(h journal.Head, remembered []journal.Interval) *topicLine {
	l := &topicLine{
		Type: typeTopic, Topic: h.Topic, Kind: string(h.Kind), From: utc(h.From), Until: utc(h.Until), Reset: h.Reset,
		Removed: h.IsTombstone(), Last: ofAnchor(h.Last), ID: h.ID, SHA256: h.SHA256, ReceivedAt: utc(h.ReceivedAt), Gaps: ofGaps(h.Gaps),
	}
	for _, i := range remembered {
		if i.Position > h.Last.Position {
			break // its entry was appended after the head was read
		}
		l.Intervals = append(l.Intervals, intervalLine{utc(i.From), utc(i.Until), i.SHA256, i.ID, uint64(i.Position)})
	}
	return l
}

func (l *topicLine) topic() (h journal.Head, remembered []journal.Interval) {
	h = journal.Head{
		Topic: l.Topic, Kind: journal.Kind(l.Kind), From: utc(l.From), Until: utc(l.Until), Reset: l.Reset,
		Last: l.Last.anchor(), ID: l.ID, SHA256: l.SHA256, ReceivedAt: utc(l.ReceivedAt), Gaps: gapsOf(l.Gaps),
	}
	if l.Removed {
		h.Removed = h.Last
	}
	if r := l.Retained; r != nil {
		h = h.Trim(r.Trimmed.anchor(), 0)
		h.Bytes = r.Bytes
	}
	for _, i := range l.Intervals {
		remembered = append(remembered, journal.Interval{From: utc(i.From), Until: utc(i.Until), SHA256: i.SHA256, ID: i.ID, Position: journal.Position(i.Position)})
	}
	return h, remembered
}

func ofEntry(topic string, e journal.Entry) *notificationLine {
	l := &notificationLine{
		Type: typeNotification, Topic: topic, ID: e.ID, Position: uint64(e.Position), Nonce: uint64(e.Nonce), Seq: e.Seq,
		ReceivedAt: utc(e.ReceivedAt), From: utc(e.From), Until: utc(e.Until), Kind: string(e.Kind), ContentType: e.MediaType,
		Links: e.Links, SHA256: e.SHA256, Counts: e.Counts, Body: e.Body,
	}
	if e.Gap != nil {
		l.Gap = &ofGaps([]journal.Gap{*e.Gap})[0]
	}
	return l
}

func (l *notificationLine) entry() journal.Entry {
	e := journal.Entry{
		ID: l.ID, Position: journal.Position(l.Position), Nonce: journal.Nonce(l.Nonce), Seq: l.Seq,
		ReceivedAt: utc(l.ReceivedAt), From: utc(l.From), Until: utc(l.Until), Kind: journal.Kind(l.Kind), MediaType: l.ContentType,
		Links: l.Links, SHA256: l.SHA256, Counts: l.Counts, Size: int64(len(l.Body)), Body: l.Body,
	}
	if l.Gap != nil {
		e.Gap = &gapsOf([]gapLine{*l.Gap})[0]
	}
	return e
}

func ofCursor(c journal.Cursor) cursorLine {
	return cursorLine{
		Generation: c.Generation, anchorLine: ofAnchor(c.Anchor), Nudge: c.Nudge, Attempt: c.Attempt, Step: c.Step,
		NextAttemptAt: utc(c.NextAttemptAt), FirstAttemptAt: utc(c.FirstAttemptAt), LastStatus: c.LastStatus,
	}
}

func (l *cursorLine) cursor() journal.Cursor {
	return journal.Cursor{
		Generation: l.Generation, Anchor: l.anchor(), Nudge: l.Nudge, Attempt: l.Attempt, Step: l.Step,
		NextAttemptAt: utc(l.NextAttemptAt), FirstAttemptAt: utc(l.FirstAttemptAt), LastStatus: l.LastStatus,
	}
}

func ofRecord(rec subscriptions.Record, secrets *secrets) *subscriptionLine {
	l := &subscriptionLine{Type: typeSubscription}
	if s := rec.Subscription; s != nil {
		l.ID, l.Topic, l.Callback = s.ID, s.Topic, s.Callback
		l.InForce = &inForceLine{
			secretLine: secrets.write(s.Secret, ofSubscription, s.Topic, s.Callback),
			CreatedAt:  utc(s.CreatedAt), VerifiedAt: utc(s.VerifiedAt), ExpiresAt: utc(s.ExpiresAt), PausedAt: utc(s.PausedAt),
			Start: ofAnchor(s.Start), Cursor: ofCursor(s.Cursor), Gaps: ofGaps(s.Gaps),
			EndedAt: utc(s.EndedAt), EndReason: s.EndReason, Requester: s.Requester,
		}
	}
	if r := rec.Request; r != nil {
		l.ID, l.Topic, l.Callback = r.SubscriptionID(), r.Topic, r.Callback
		l.Request = &requestLine{
			secretLine: secrets.write(r.Secret, ofRequest, r.Topic, r.Callback),
			ID:         r.ID, Mode: string(r.Mode), LeaseSeconds: int64(r.Lease / time.Second), AcceptedAt: utc(r.AcceptedAt),
			Start: ofAnchor(r.Start), Denied: r.Denied, Tries: r.Tries, NextAt: utc(r.NextAt), Requester: r.Requester,
		}
	}
	return l
}

// read sets rec from what the line says.
func (l *subscriptionLine) read() (err error) {
	if f := l.InForce; f != nil {
		l.rec.Subscription = &subscriptions.Subscription{
			ID: l.ID, Topic: l.Topic, Callback: l.Callback,
			CreatedAt: utc(f.CreatedAt), VerifiedAt: utc(f.VerifiedAt), ExpiresAt: utc(f.ExpiresAt), PausedAt: utc(f.PausedAt),
			Start: f.Start.anchor(), Cursor: f.Cursor.cursor(), Gaps: gapsOf(f.Gaps),
			EndedAt: utc(f.EndedAt), EndReason: f.EndReason, Requester: f.Requester,
		}
		if l.rec.Subscription.Secret, err = l.secrets.read(f.secretLine, ofSubscription, l.Topic, l.Callback); err != nil {
			return err
		}
	}
	if f := l.Request; f != nil {
		l.rec.Request = &subscriptions.Request{
			ID: f.ID, Topic: l.Topic, Callback: l.Callback, Lease: time.Duration(f.LeaseSeconds) * time.Second,
			AcceptedAt: utc(f.AcceptedAt), Start: f.Start.anchor(), Denied: f.Denied, Tries: f.Tries, NextAt: utc(f.NextAt), Requester: f.Requester,
		}
		set(&l.rec.Request.Mode, f.Mode)
		l.rec.Request.Secret, err = l.secrets.read(f.secretLine, ofRequest, l.Topic, l.Callback)
	}
	return err
}

// set stores a text in a variable whose type belongs to a package that is not imported here.
func set[T ~string](to *T, text string) { *to = T(text) }
