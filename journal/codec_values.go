package journal

// PackHead packs all of h.
func PackHead(h Head) []byte {
	p := NewPacker(packedVersion)
	p.Text(h.Topic)
	p.Text(string(h.Version))
	p.Text(string(h.Kind))
	p.Time(h.From)
	p.Time(h.Until)
	p.Bool(h.Reset)
	p.Uint(h.Epoch)
	p.Anchor(h.Last)
	p.ID(h.ID)
	p.Hash(h.SHA256)
	p.Time(h.ReceivedAt)
	p.Anchor(h.Trimmed)
	p.Anchor(h.Removed)
	p.Gaps(h.Gaps)
	p.Int(h.Entries)
	p.Int(h.Bytes)
	return p.Packed()
}

// UnpackHead reads what PackHead wrote. Its errors wrap ErrPacked.
func UnpackHead(b []byte) (Head, error) {
	u := NewUnpacker("the head of a topic", packedVersion, b)
	h := Head{
		Topic:   u.Text(),
		Version: Version(u.Text()),
		Kind:    Kind(u.Text()),
		From:    u.Time(), Until: u.Time(),
		Reset: u.Bool(), Epoch: u.Uint(),
		Last: u.Anchor(), ID: u.ID(), SHA256: u.Hash(), ReceivedAt: u.Time(),
		Trimmed: u.Anchor(), Removed: u.Anchor(),
		Gaps:    u.Gaps(),
		Entries: u.Int(), Bytes: u.Int(),
	}
	if err := u.Done(); err != nil {
		return Head{}, err
	}
	return h, nil
}

// PackEntry packs all of e but its Body.
func PackEntry(e Entry) []byte {
	p := NewPacker(packedVersion)
	p.ID(e.ID)
	p.Fixed(uint64(e.Position))
	p.Uint(e.Seq)
	p.Fixed(uint64(e.Nonce))
	p.Time(e.ReceivedAt)
	p.Time(e.From)
	p.Time(e.Until)
	p.Text(string(e.Kind))
	p.Text(e.MediaType)
	p.Uint(uint64(len(e.Links)))
	for _, l := range e.Links {
		p.Text(l)
	}
	p.Hash(e.SHA256)
	p.Uint(uint64(e.Counts.Created))
	p.Uint(uint64(e.Counts.Updated))
	p.Uint(uint64(e.Counts.Deleted))
	p.Int(e.Size)
	p.Bool(e.Gap != nil)
	if e.Gap != nil {
		p.Gap(*e.Gap)
	}
	return p.Packed()
}

// UnpackEntry reads what PackEntry wrote. Its errors wrap ErrPacked.
func UnpackEntry(b []byte) (Entry, error) {
	u := NewUnpacker("an entry", packedVersion, b)
	e := Entry{
		ID:       u.ID(),
		Position: Position(u.Fixed()), Seq: u.Uint(), Nonce: Nonce(u.Fixed()),
		ReceivedAt: u.Time(), From: u.Time(), Until: u.Time(),
		Kind: Kind(u.Text()), MediaType: u.Text(),
	}
	for range u.Count() {
		e.Links = append(e.Links, u.Text())
	}
	e.SHA256 = u.Hash()
	e.Counts = Counts{u.Uint32(), u.Uint32(), u.Uint32()} // unkeyed, so that a new count does not compile unpacked
	e.Size = u.Int()
	if u.Bool() {
		g := u.Gap()
		e.Gap = &g
	}
	if err := u.Done(); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// PackInterval packs all of i.
func PackInterval(i Interval) []byte {
	p := NewPacker(packedVersion)
	p.Time(i.From)
	p.Time(i.Until)
	p.Hash(i.SHA256)
	p.ID(i.ID)
	p.Fixed(uint64(i.Position))
	return p.Packed()
}

// UnpackInterval reads what PackInterval wrote. Its errors wrap ErrPacked.
func UnpackInterval(b []byte) (Interval, error) {
	u := NewUnpacker("an interval", packedVersion, b)
	i := Interval{From: u.Time(), Until: u.Time(), SHA256: u.Hash(), ID: u.ID(), Position: Position(u.Fixed())}
	if err := u.Done(); err != nil {
		return Interval{}, err
	}
	return i, nil
}

// PackPingRecord packs all of m.
func PackPingRecord(m PingRecord) []byte {
	p := NewPacker(packedVersion)
	p.Text(m.Topic)
	p.Uint(m.Pings)
	p.Uint(m.Fetched)
	p.Time(m.PingedAt)
	p.Int(int64(m.Tries))
	p.Time(m.NextAt)
	p.Time(m.Last.At)
	p.Text(m.Last.Outcome)
	p.Text(m.Last.Detail)
	p.Int(int64(m.Last.Status))
	p.ID(m.Last.ID)
	return p.Packed()
}

// UnpackPingRecord reads what PackPingRecord wrote. Its errors wrap ErrPacked.
func UnpackPingRecord(b []byte) (PingRecord, error) {
	u := NewUnpacker("a ping record", packedVersion, b)
	m := PingRecord{
		Topic: u.Text(), Pings: u.Uint(), Fetched: u.Uint(), PingedAt: u.Time(),
		Tries: int(u.Int()), NextAt: u.Time(),
		Last: Fetch{At: u.Time(), Outcome: u.Text(), Detail: u.Text(), Status: int(u.Int()), ID: u.ID()},
	}
	if err := u.Done(); err != nil {
		return PingRecord{}, err
	}
	return m, nil
}
