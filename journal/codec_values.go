package journal

func (h *Head) fields() []any {
	return []any{
		&h.Topic, (*string)(&h.Version), (*string)(&h.Kind), &h.From, &h.Until, &h.Reset, &h.Epoch,
		&h.Last, &h.ID, &h.SHA256, &h.ReceivedAt, &h.Trimmed, &h.Removed, &h.Gaps, &h.Entries, &h.Bytes,
	}
}

// PackHead packs all of h.
func PackHead(h Head) []byte { return Pack(packedVersion, h.fields()...) }

// UnpackHead reads what PackHead wrote. Its errors wrap ErrPacked.
func UnpackHead(b []byte) (h Head, err error) {
	err = Unpack(&h, "the head of a topic", packedVersion, b, h.fields()...)
	return h, err
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
