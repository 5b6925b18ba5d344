package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"
)

// Errors of Record.
var (
	// ErrFull: Options.MaxStored is reached. Nothing was recorded; try again when
	// the hubs have taken some.
	ErrFull = errors.New("the outbox is full")
	// ErrClosed: the Publisher was closed.
	ErrClosed = errors.New("the publisher is closed")
)

// Publisher publishes the changes of one topic. It may be shared between
// goroutines.
type Publisher struct {
	o         Options
	ownClient bool  // Options named none
	frameSize int64 // of a notification without entries, in bytes
	box       *outbox
	senders   []*sender

	cutting sync.Mutex    // held by who cuts, or divides
	marking sync.Mutex    // held by who moves a mark
	cutter  chan struct{} // wakes Run

	troubles sync.Map // part of Run -> why it waits for the disk

	progressMu sync.Mutex
	progress   chan struct{} // closed and replaced when a mark moves or a hub stops
}

// Open opens the outbox in o.Dir. Nothing is sent before Run. The error says
// which option is wrong, or what is with the folder.
func Open(o Options) (*Publisher, error) {
	own := o.Client == nil
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Publisher{o: o, ownClient: own, cutter: make(chan struct{}, 1), progress: make(chan struct{})}
	if p.frameSize, err = o.frameSize(); err != nil {
		return nil, err
	}
	from := o.From.UTC()
	if from.IsZero() {
		from = time.Now().UTC().Truncate(tick)
	}
	if from.Before(firstInstant) || !from.Before(lastInstant) {
		return nil, fmt.Errorf("the first interval would begin at %s: use a time from 1970 to 2262", from.Format(time.RFC3339))
	}
	if p.box, err = openOutbox(o.Dir, state{Topic: o.Topic, Kind: o.Kind, Until: from}); err != nil {
		return nil, err
	}
	if err := p.enlist(); err != nil {
		return nil, errors.Join(err, p.box.close())
	}
	return p, nil
}

// enlist makes a sender for each hub, and a mark for one that is new: the end of
// what has been cut.
func (p *Publisher) enlist() error {
	err := p.box.do(context.Background(), func(tx *bbolt.Tx, now *standing) error {
		p.senders = p.senders[:0]
		hubs := tx.Bucket(bucketHubs)
		for _, h := range p.o.Hubs {
			var m mark
			if b := hubs.Get([]byte(h.URL)); b != nil {
				var err error
				if m, err = unpackMark(b); err != nil {
					return err
				}
			} else {
				if now.Begun {
					m.Until = now.Until
				}
				if err := hubs.Put([]byte(h.URL), pack(m)); err != nil {
					return err
				}
			}
			p.senders = append(p.senders, newSender(p, h, m))
		}
		return nil
	})
	for _, h := range p.o.Hubs {
		if (h.Token != "" || h.Secret != "") && strings.HasPrefix(h.URL, "http://") && !isLoopback(h.URL) {
			p.o.Log.Warn("the credential for this hub goes over the network unencrypted: use its https URL",
				slog.String("event", "credential_in_clear"), slog.String("hub", h.URL))
		}
	}
	return err
}

func isLoopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

// Run cuts and sends until ctx ends, and then returns nil. A disk that fails or is
// full is waited for, and told in the log and by Status. Run may be called again
// after it has returned; any other error says that the Publisher was closed.
func (p *Publisher) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.runCutter(ctx) })
	group.Go(func() error { return p.runTrim(ctx) })
	for _, s := range p.senders {
		group.Go(func() error { return s.run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("the publisher of %s: %w", p.o.Topic, err)
	}
	return nil
}

// The parts of Run beside the hubs.
const (
	partCutting  = "cutting"
	partTrimming = "trimming"
)

// diskPause is how long a part of Run waits after the disk failed it.
const diskPause = 10 * time.Second

// endure waits after an error of the disk, or of what is on it: what is to be done
// stays to be done. Its own error ends Run.
func (p *Publisher) endure(ctx context.Context, part string, err error) error {
	switch {
	case err == nil:
		p.troubles.Delete(part)
		return nil
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrClosed):
		return err
	}
	p.troubles.Store(part, err)
	p.o.Log.Error("the outbox fails; it is tried again", slog.String("event", "outbox_failed"), slog.String("topic", p.o.Topic),
		slog.String("part", part), slog.Any("error", err))
	select {
	case <-ctx.Done():
	case <-time.After(diskPause):
	}
	return nil
}

// runCutter cuts whenever it is time.
func (p *Publisher) runCutter(ctx context.Context) error {
	quiet := time.Now() // since when no interval was cut
	for ctx.Err() == nil {
		wait, end := p.due(time.Now(), quiet)
		if wait > 0 {
			p.troubles.Delete(partCutting) // Flush may have got over it
			t := time.NewTimer(wait)
			select {
			case <-ctx.Done():
			case <-p.cutter:
			case <-t.C:
			}
			t.Stop()
			continue
		}
		p.cutting.Lock()
		ok, err := p.cut(ctx, end)
		p.cutting.Unlock()
		if err := p.endure(ctx, partCutting, err); err != nil {
			return err
		}
		if ok {
			quiet = time.Now()
		}
	}
	return nil
}

// never is longer than anybody waits.
const never = 1000 * time.Hour

// due returns how long it is until the next cut, and with 0 where it ends: zero
// for right after the last change.
func (p *Publisher) due(now, quiet time.Time) (wait time.Duration, end time.Time) {
	s := p.box.standing()
	entries, bytes := p.limits()
	switch {
	case s.queued >= entries || s.queuedBytes+p.frameSize >= bytes:
		return 0, time.Time{}
	case s.queued > 0:
		if !p.awaited(s.Until) {
			return never, time.Time{} // who is behind gets more at once later
		}
		return max(p.o.Every-now.Sub(s.since), 0), time.Time{}
	case p.o.Heartbeat <= 0 || !p.awaited(s.Until):
		return never, time.Time{}
	}
	wait = max(p.o.Heartbeat-now.Sub(quiet), 0)
	if end = now.UTC().Truncate(tick); wait == 0 && !end.After(s.Until) {
		return tick, time.Time{} // the clock was put back
	}
	return wait, end
}

// awaited reports whether there is a hub that has got all up to until, or no hub
// at all.
func (p *Publisher) awaited(until time.Time) bool {
	for _, s := range p.senders {
		if _, stopped := s.stopped(); !stopped && s.has(until) {
			return true
		}
	}
	return len(p.senders) == 0
}

// has reports whether the hub has all up to until.
func (s *sender) has(until time.Time) bool {
	at := s.mark().Until
	return !at.Before(until) || at.IsZero() && !s.p.box.standing().Begun
}

// trimEvery is how often old intervals are looked for.
const trimEvery = time.Minute

func (p *Publisher) runTrim(ctx context.Context) error {
	t := time.NewTicker(trimEvery)
	defer t.Stop()
	for {
		if err := p.endure(ctx, partTrimming, p.trim(ctx, time.Now())); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// trim notes what every hub has, and takes away of it what was acknowledged long
// enough ago, or takes too much room.
func (p *Publisher) trim(ctx context.Context, now time.Time) error {
	least := p.box.standing().Until
	for _, s := range p.senders {
		if at := s.mark().Until; at.Before(least) {
			least = at
		}
	}
	err := p.box.do(ctx, func(tx *bbolt.Tx, s *standing) error { return settle(tx, s, least, now) })
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	for n := maxTrim; err == nil && n == maxTrim; {
		var early interval
		n, early, err = p.box.trim(ctx, least, now.Add(-p.o.Keep), p.o.MaxStored/4*3)
		if !early.Until.IsZero() {
			p.o.Log.Warn("the outbox is nearly full: what every hub has went before its time, and a hub that loses it can't get it again",
				slog.String("event", "kept_too_short"), slog.String("topic", p.o.Topic), slog.Time("until", early.Until))
		}
	}
	return err
}

// wakeCutter has Run look whether it is time to cut.
func (p *Publisher) wakeCutter() { nudge(p.cutter) }

// wakeSenders tells all hubs that there is something.
func (p *Publisher) wakeSenders() {
	for _, s := range p.senders {
		nudge(s.wake)
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// moved tells those that wait for a hub.
func (p *Publisher) moved() {
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	close(p.progress)
	p.progress = make(chan struct{})
	p.wakeCutter()
}

func (p *Publisher) onProgress() <-chan struct{} {
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	return p.progress
}

// begins reports whether an interval that is kept begins at an instant.
func (p *Publisher) begins(at time.Time) bool {
	found := false
	err := p.box.view(func(tx *bbolt.Tx) error {
		is, err := beginningAt(tx, at)
		found = len(is) > 0
		return err
	})
	return err == nil && found && !at.IsZero()
}

// Close gives the folder free. Run has to have returned. It may be called again.
func (p *Publisher) Close() error {
	if own, ok := p.o.Client.(*http.Client); ok && p.ownClient {
		own.CloseIdleConnections()
	}
	return p.box.close()
}
