package journal

func (h *Head) fields() []any {
	return []any{
		&h.Topic, (*string)(&h.Version), (*string)(&h.Kind), &h.From, &h.Until, &h.Reset, &h.Epoch,
		&h.Last, &h.ID, &h.SHA256, &h.ReceivedAt, &h.Trimmed, &h.Removed, &h.Gaps, &h.Entries, &h.Bytes,
	}
}

// headVersion is the version byte of a head in the newest Format: after the fields stands
// After of each gap. In the previous one that is not stored.
const headVersion = 4

// PackHead packs h: all of it in the newest format, and in the previous one all except
// Gap.After.
func PackHead(h Head, f Format) []byte {
	if f == Previous {
		return Pack(packedVersion, h.fields()...)
	}
	p := NewPacker(headVersion)
	p.Fields(h.fields()...)
	for i := range h.Gaps {
		p.anchor(&h.Gaps[i].After)
	}
	return p.Packed()
}

// UnpackHead reads what PackHead wrote in any format. Its errors wrap ErrPacked.
func UnpackHead(b []byte) (h Head, err error) {
	const what = "the head of a topic"
	if len(b) > 0 && b[0] == packedVersion {
		err = Unpack(&h, what, packedVersion, b, h.fields()...)
		return h, err
	}
	u := NewUnpacker(what, headVersion, b)
	u.Fields(h.fields()...)
	for i := range h.Gaps {
		h.Gaps[i].After = u.anchor()
	}
	if err := u.Done(); err != nil {
		return Head{}, err
	}
	return h, nil
}

func (e *Entry) fields() []any {
	return []any{
		&e.ID, (*Fixed)(&e.Position), &e.Seq, (*Fixed)(&e.Nonce), &e.ReceivedAt, &e.From, &e.Until,
		(*string)(&e.Kind), &e.MediaType, &e.Links, &e.SHA256,
		&e.Counts.Created, &e.Counts.Updated, &e.Counts.Deleted, &e.Size, &e.Gap,
	}
}

// PackEntry packs all of e except its Body.
func PackEntry(e Entry) []byte { return Pack(packedVersion, e.fields()...) }

// UnpackEntry reads what PackEntry wrote. Its errors wrap ErrPacked.
func UnpackEntry(b []byte) (e Entry, err error) {
	err = Unpack(&e, "an entry", packedVersion, b, e.fields()...)
	return e, err
}

func (i *Interval) fields() []any {
	return []any{&i.From, &i.Until, &i.SHA256, &i.ID, (*Fixed)(&i.Position)}
}

// PackInterval packs all of i.
func PackInterval(i Interval) []byte { return Pack(packedVersion, i.fields()...) }

// UnpackInterval reads what PackInterval wrote. Its errors wrap ErrPacked.
func UnpackInterval(b []byte) (i Interval, err error) {
	err = Unpack(&i, "an interval", packedVersion, b, i.fields()...)
	return i, err
}

func (m *PingRecord) fields() []any {
	return []any{
		&m.Topic, &m.Pings, &m.Fetched, &m.PingedAt, &m.Tries, &m.NextAt,
		&m.Last.At, &m.Last.Outcome, &m.Last.Detail, &m.Last.Status, &m.Last.ID,
	}
}

// PackPingRecord packs all of m.
func PackPingRecord(m PingRecord) []byte { return Pack(packedVersion, m.fields()...) }

// UnpackPingRecord reads what PackPingRecord wrote. Its errors wrap ErrPacked.
func UnpackPingRecord(b []byte) (m PingRecord, err error) {
	err = Unpack(&m, "a ping record", packedVersion, b, m.fields()...)
	return m, err
}
