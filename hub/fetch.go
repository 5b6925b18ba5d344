package hub

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

const (
	// sweepEvery is how often the hub reads all ping records to find those that wait, and
	// forgetEvery those that are too old. If there are several hubs, a ping may have come
	// to another one: then a sweep comes every sweepSoon, and also after the store failed.
	sweepEvery  = time.Minute
	sweepSoon   = 5 * time.Second
	forgetEvery = time.Hour
	// sweepPage is how many ping records are read from the store at once.
	sweepPage = 256
	// storeRest is the pause after the store failed, and recordTime how long storing the
	// result of a fetch may take.
	storeRest  = 5 * time.Second
	recordTime = 5 * time.Second
	// overtakenPause is the wait before a topic is fetched again because its journal moved.
	overtakenPause = time.Second
	// maxDetail is how many bytes of a refusal a ping record stores.
	maxDetail = 1000
	// anyMedia is the type of what is served without one (RFC 9110, 8.3).
	anyMedia = "application/octet-stream"
)

var allPartitions = func() (all []int) {
	for partition := range journal.Partitions {
		all = append(all, partition)
	}
	return all
}()

// Fetch fetches the pinged topics of this hub's partitions until ctx ends, whichever hub
// got the ping. The next call, also after a restart, fetches those that are left. It
// returns nil. Only one call may run at a time.
func (h *Handler) Fetch(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	due, sweep := time.NewTimer(0), time.NewTimer(0)
	defer due.Stop()
	defer sweep.Stop()
	var swept, forgot time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			sweep.Reset(sweepSoon)
			if h.o.Live() <= 1 && time.Since(swept) < sweepEvery {
				break // there is no other hub that a ping may have come to
			}
			forget := time.Since(forgot) >= forgetEvery
			if swept = time.Now(); forget {
				forgot = swept
			}
			if !h.sweep(ctx, allPartitions, forget) {
				swept = time.Time{}
			}
		case <-h.fetches.wake():
			if !h.sweep(ctx, h.fetches.drainAcquired(), false) {
				swept = time.Time{}
			}
		case <-due.C:
		}
		for ctx.Err() == nil {
			j, wait := h.fetches.next(time.Now())
			if j == nil {
				due.Reset(wait)
				break
			}
			working.Go(func() { h.fetches.finish(j, h.work(ctx, j)) })
		}
	}
}

// Acquired says that this hub owns a partition from now on, so that it fetches topics
// that were pinged before. It does not wait.
func (h *Handler) Acquired(partition int) { h.fetches.acquire(partition) }

// sweep queues the waiting ping records of this hub's partitions. If forget is set, it deletes
// ping records that led to nothing for journal.PingRecordKeep. False: the store failed.
func (h *Handler) sweep(ctx context.Context, partitions []int, forget bool) bool {
	for _, partition := range partitions {
		if err := h.sweepOne(ctx, partition, forget); err != nil {
			h.storeFailed(ctx, err)
			return false
		}
	}
	return true
}

func (h *Handler) sweepOne(ctx context.Context, partition int, forget bool) error {
	now := h.o.Clock.Earliest()
	var after uuid.UUID
	for h.o.Owns(partition) {
		pings, err := h.o.Pings.PingRecords(ctx, partition, after, sweepPage)
		if err != nil {
			return err
		}
		for _, m := range pings {
			if m.Waiting() {
				known := h.fetches.lacks(m.Topic) && isKnown(ctx, &h.o, m.Topic)
				h.fetches.resume(m, known, h.o.Clock.Now())
			} else if forget {
				if err := forgetOld(ctx, &h.o, m, now); err != nil {
					return err
				}
			}
		}
		if len(pings) < sweepPage {
			return nil
		}
		after = journal.TopicID(pings[len(pings)-1].Topic)
	}
	return nil
}

// owns reports whether this hub fetches a topic.
func (h *Handler) owns(topic string) bool {
	return h.o.Owns(journal.Partition(journal.TopicID(topic)))
}

// forgetOld deletes an old ping record if its topic never had a notification.
func forgetOld(ctx context.Context, o *Options, m journal.PingRecord, now time.Time) error {
	if now.Sub(m.PingedAt) < journal.PingRecordKeep {
		return nil
	}
	head, err := o.Journal.Head(ctx, m.Topic)
	if err != nil || head.Established() {
		return err
	}
	return o.Pings.DeletePingRecord(ctx, m)
}

// isKnown asks the store whether a topic is established; false if the store fails.
func isKnown(ctx context.Context, o *Options, topic string) bool {
	head, err := o.Journal.Head(ctx, topic)
	return err == nil && head.Established()
}

// storeFailed starts no fetch for a while, because the store cannot say what to fetch, or
// cannot record the result.
func (h *Handler) storeFailed(ctx context.Context, err error) {
	if now := time.Now(); ctx.Err() == nil && h.fetches.pauseUntil(now, now.Add(storeRest)) {
		h.log.Warn("the store failed the pings; it is tried again", zap.String("event", "fetch_store_failed"), zap.Error(err))
	}
}

// work fetches the topic of a job, unless that is no longer necessary, and returns how the
// job goes on.
func (h *Handler) work(ctx context.Context, j *fetchJob) next {
	if j.unrecorded != nil { // it was fetched, but the store failed
		// If it has to be fetched again, a sweep finds it.
		return h.record(ctx, j, *j.unrecorded, next{})
	}
	if !h.owns(j.topic) { // the new owner finds the ping record
		return next{}
	}
	m, err := h.o.Pings.PingRecord(ctx, j.topic)
	if err != nil {
		h.storeFailed(ctx, err)
		return next{keep: true}
	}
	if !m.Waiting() {
		return next{}
	}
	j.pings = m.Pings
	head, err := h.o.Journal.Head(ctx, j.topic)
	if err != nil {
		h.storeFailed(ctx, err)
		return next{keep: true}
	}
	if head.Established() && !j.known {
		return next{keep: true, known: true} // in its own turn
	}
	start := time.Now()
	p := &publication{topic: j.topic, fetched: true, since: head.Version}
	status, err := h.fetch(asking(ctx, 0, j.topic, head, ""), p)
	if err != nil && ctx.Err() != nil {
		return next{keep: true} // the ping record stays for the next start
	}
	if errors.Is(err, errOvertaken) {
		return next{keep: true, due: time.Now().Add(overtakenPause)}
	}
	now := h.o.Clock.Now()
	var wait *validate.WaitError
	if errors.As(err, &wait) && now.Add(wait.After).Before(m.PingedAt.Add(fetchFor)) {
		return next{keep: true, due: time.Now().Add(wait.After), pause: !j.known}
	}
	attempt := m.Tries + 1
	m, then := concluded(m, p, err, now, rand.Float64()) //nolint:gosec // spreads load, keeps no secret
	m.Last.Status = status
	h.report(fetchEvent(p, start, err), tryFields(m, attempt, p.bodyLength)...)
	return h.record(ctx, j, m, then)
}

// fetchEvent returns the event of a try that began at start and ended with err.
func fetchEvent(p *publication, start time.Time, err error) Event {
	e := Event{
		Name: EventFetch, Outcome: p.outcome(), Status: http.StatusOK, Topic: p.topic, NotificationID: p.id,
		Bytes: p.bodyLength, Start: start, Duration: time.Since(start), Append: p.stored, Gap: p.gap,
	}
	if err != nil {
		r := classify(err)
		e.Outcome, e.Status, e.Err = r.kind.slug, r.kind.status, r
	}
	return e
}

// tryFields returns what the line of the log about a try has beside its event. M is the ping
// record after the try.
func tryFields(m journal.PingRecord, attempt int, bytes int64) []zap.Field {
	fields := []zap.Field{zap.Int("attempt", attempt), zap.Int64("bytes", bytes)}
	if m.Last.Status != 0 {
		fields = append(fields, zap.Int("topic_status", m.Last.Status))
	}
	if !m.NextAt.IsZero() {
		fields = append(fields, zap.Time("next_attempt_at", m.NextAt))
	}
	return fields
}

// record stores the result of a fetch, even if ctx has ended. Until then the job does
// nothing else. Otherwise, if the store accepts notifications but no ping records, the same
// content would go out again and again.
func (h *Handler) record(ctx context.Context, j *fetchJob, m journal.PingRecord, then next) next {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	j.unrecorded = nil
	if err := h.o.Pings.SetFetched(ctx, m); err != nil {
		j.unrecorded = &m
		h.storeFailed(ctx, err)
		return next{keep: true}
	}
	if m.Waiting() {
		return then
	}
	// A ping during the fetch is in the stored ping record, and in the job.
	return next{}
}

// fetch gets what the topic serves, and leads it through the stages of a publish from
// validate on. Status is that of the topic's answer, 0 if there was none.
func (h *Handler) fetch(ctx context.Context, p *publication) (status int, err error) {
	if err := h.checkTopic(p.topic); err != nil {
		return 0, err
	}
	f, err := h.o.Topics.Fetch(ctx, p.topic)
	if err != nil {
		return f.Status, err
	}
	defer func() { _ = f.Body.Close() }()
	if err := p.describe(f.Header); err != nil {
		return f.Status, err
	}
	if p.body, err = readBody(h.fetchMemory, f.Body, f.Length, h.o.MaxBody); err != nil {
		return f.Status, err
	}
	defer p.release()
	p.bodyLength = int64(len(p.body.bytes))
	h.bytesByTopicHost.spend(h.o.Now(), topicHostKey(egress.HostPortOf(p.topic), false), p.bodyLength)
	if p.plain = p.plain || !validate.IsSitemap(p.body.bytes); !p.plain {
		if _, err := mediaType(f.Header); err != nil {
			return f.Status, err
		}
	}
	if p.bodyLength == 0 {
		return f.Status, refuse(emptyContent, "The topic URI serves nothing, so there is nothing to deliver. Publish the notification itself, or ping once the topic serves it.")
	}
	return f.Status, h.enter(ctx, p, fetched)
}

// describe reads the headers of the topic's answer: the media type, which may already say
// that the content is plain (HUB-61), and the links that are relayed with it (HUB-44).
func (p *publication) describe(header http.Header) error {
	if coding := header.Get("Content-Encoding"); coding != "" {
		return refuse(unsupportedMediaType, "The topic URI answers with the Content-Encoding %q, although the hub asked for none.", excerpt.Cut(coding, maxShown))
	}
	p.mediaType = header.Get("Content-Type")
	if p.mediaType == "" {
		p.mediaType = anyMedia
	}
	media, _, _ := strings.Cut(p.mediaType, ";") // however its parameters are written
	p.plain = !strings.EqualFold(strings.TrimSpace(media), mediaXML)
	base, err := url.Parse(p.topic)
	if err != nil {
		return nil // it was asked, so it is a URL
	}
	targets := websub.Targets(websub.ParseLinks(header.Values("Link")), websub.RelResourceSync)
	for i, target := range targets {
		targets[i] = validate.Absolute(base, target)
	}
	p.relay(targets)
	return nil
}
