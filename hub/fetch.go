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
	"unicode/utf8"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

const (
	// sweepEvery is how often the marks are gone through for those that wait and
	// are not known of, and forgetEvery for those that are to be forgotten.
	// Where there are several hubs, a ping may have come to another: then a sweep
	// comes every sweepSoon, and soon after the store failed one.
	sweepEvery  = time.Minute
	sweepSoon   = 5 * time.Second
	forgetEvery = time.Hour
	// sweepPage is how many marks are read from the store at once.
	sweepPage = 256
	// storeRest is the pause after trouble with the store, and settleTime how
	// long storing what became of a fetch may take.
	storeRest  = 5 * time.Second
	settleTime = 5 * time.Second
	// overtakenPause is when a topic is fetched again whose journal went on meanwhile.
	overtakenPause = time.Second
	// maxDetail is how many bytes of a refusal are kept in a mark.
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

// Fetch fetches the topics of this hub's partitions that were pinged, here or at
// another hub, those of before a restart included, until ctx ends; what is not
// done by then stays marked. It returns nil. It is not to be called twice at a
// time.
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
				break // no ping came to another hub
			}
			forget := time.Since(forgot) >= forgetEvery
			if swept = time.Now(); forget {
				forgot = swept
			}
			if !h.sweep(ctx, allPartitions, forget) {
				swept = time.Time{}
			}
		case <-h.fetches.wake:
			if !h.sweep(ctx, h.fetches.taken(), false) {
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

// Take has the topics of a partition fetched that were pinged before this hub
// owned it. It does not wait.
func (h *Handler) Take(partition int) { h.fetches.take(partition) }

// sweep takes up the marks of partitions that wait, those of other hubs left out.
// Where forget is set it forgets those of topics that nothing came of for
// journal.MarkKeep. False: the store failed it.
func (h *Handler) sweep(ctx context.Context, partitions []int, forget bool) bool {
	for _, partition := range partitions {
		if err := h.sweepOne(ctx, partition, forget); err != nil {
			h.trouble(ctx, err)
			return false
		}
	}
	return true
}

func (h *Handler) sweepOne(ctx context.Context, partition int, forget bool) error {
	now := h.o.Clock.Earliest()
	var after uuid.UUID
	for h.o.Owns(partition) {
		marks, err := h.o.Marks.Marks(ctx, partition, after, sweepPage)
		if err != nil {
			return err
		}
		for _, m := range marks {
			if m.Waiting() {
				known := h.fetches.lacks(m.Topic) && h.known(ctx, m.Topic)
				h.fetches.resume(m, known, h.o.Clock.Now())
			} else if forget {
				if err := h.forget(ctx, m, now); err != nil {
					return err
				}
			}
		}
		if len(marks) < sweepPage {
			return nil
		}
		after = journal.TopicID(marks[len(marks)-1].Topic)
	}
	return nil
}

// owns tells whether this hub fetches a topic.
func (h *Handler) owns(topic string) bool {
	return h.o.Owns(journal.Partition(journal.TopicID(topic)))
}

// forget takes an old mark away where the topic never had a notification.
func (h *Handler) forget(ctx context.Context, m journal.Mark, now time.Time) error {
	if now.Sub(m.PingedAt) < journal.MarkKeep {
		return nil
	}
	head, err := h.o.Journal.Head(ctx, m.Topic)
	if err != nil || established(head) {
		return err
	}
	return h.o.Marks.Unmark(ctx, m)
}

// established reports whether a topic has its place in the journal.
func established(head journal.Head) bool { return head.Version != "" && !head.Forgotten() }

// known asks the store whether a topic is established; false where it can't tell.
func (h *Handler) known(ctx context.Context, topic string) bool {
	head, err := h.o.Journal.Head(ctx, topic)
	return err == nil && established(head)
}

// asking returns a context in which a topic is asked on behalf of a requester, or of a
// publisher with a credential; either may be empty. A topic that is established, or
// whose publisher has a credential, is asked out of the reserve.
func asking(ctx context.Context, requester uint64, topic string, head journal.Head, publisher string) context.Context {
	a := egress.Asker{Requester: requester, Established: established(head)}
	if a.Established || publisher != "" {
		a.Reserve = topic
	}
	return egress.WithAsker(ctx, a)
}

// trouble has no fetch begin for a while, as the store is in no state to say what
// is to be fetched, or to keep what came of it.
func (h *Handler) trouble(ctx context.Context, err error) {
	if now := time.Now(); ctx.Err() == nil && h.fetches.restUntil(now, now.Add(storeRest)) {
		h.log.Warn("the store failed the pings; it is tried again", zap.String("event", "fetch_store_failed"), zap.Error(err))
	}
}

// work fetches the topic of a job, if it is still to be fetched, and says how the
// job goes on.
func (h *Handler) work(ctx context.Context, j *fetchJob) next {
	if j.unsettled != nil { // it was fetched, and the store did not hear of it
		// Where it is to be tried again, a sweep finds it.
		return h.settle(ctx, j, *j.unsettled, next{})
	}
	if !h.owns(j.topic) { // any more: the mark is there for whoever does
		return next{}
	}
	m, err := h.o.Marks.Mark(ctx, j.topic)
	if err != nil {
		h.trouble(ctx, err)
		return next{keep: true}
	}
	if !m.Waiting() {
		return next{}
	}
	j.pings = m.Pings
	head, err := h.o.Journal.Head(ctx, j.topic)
	if err != nil {
		h.trouble(ctx, err)
		return next{keep: true}
	}
	if established(head) && !j.known {
		return next{keep: true, known: true} // in its own turn
	}
	start := time.Now()
	p := &publication{topic: j.topic, fetched: true, since: head.Version}
	status, err := h.fetch(asking(ctx, 0, j.topic, head, ""), p)
	if err != nil && ctx.Err() != nil {
		return next{keep: true} // the mark stays for the next start
	}
	if errors.Is(err, errOvertaken) {
		return next{keep: true, due: time.Now().Add(overtakenPause)}
	}
	now := h.o.Clock.Now()
	var wait *validate.WaitError
	if errors.As(err, &wait) && now.Add(wait.After).Before(m.PingedAt.Add(fetchFor)) {
		return next{keep: true, due: time.Now().Add(wait.After), hold: !j.known}
	}
	e := Event{
		Name: EventFetch, Outcome: p.outcome(), Status: http.StatusOK, Topic: j.topic, NotificationID: p.id,
		Bytes: p.bodyLength, Start: start, Duration: time.Since(start), Append: p.stored, Gap: p.gap,
	}
	attempt := m.Tries + 1
	m, then := concluded(m, p, err, now, rand.Float64()) //nolint:gosec // spreads load, keeps no secret
	m.Last.Status = status
	if err != nil {
		r := classify(err)
		e.Outcome, e.Status, e.Err = r.kind.slug, r.kind.status, r
	}
	answered, again := zap.Skip(), zap.Skip()
	if status != 0 {
		answered = zap.Int("topic_status", status)
	}
	if !m.NextAt.IsZero() {
		again = zap.Time("next_attempt_at", m.NextAt)
	}
	h.tell(e, zap.Int("attempt", attempt), answered, again, zap.Int64("bytes", p.bodyLength))
	return h.settle(ctx, j, m, then)
}

// settle stores what came of a fetch, though ctx may have ended meanwhile.
// Until that is done the job does nothing else, so that no content goes out
// again and again where the store takes notifications and no marks.
func (h *Handler) settle(ctx context.Context, j *fetchJob, m journal.Mark, then next) next {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	j.unsettled = nil
	if err := h.o.Marks.SetFetched(ctx, m); err != nil {
		j.unsettled = &m
		h.trouble(ctx, err)
		return next{keep: true}
	}
	if m.Waiting() {
		return then
	}
	// A ping that came while it was fetched is in the mark that is stored, and
	// in the job.
	return next{}
}

// fetch asks the topic and leads what it serves through the stages of a publish.
// Status is that of the topic's answer, 0 where there was none.
func (h *Handler) fetch(ctx context.Context, p *publication) (status int, err error) {
	if err := h.served(p.topic); err != nil {
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
	if p.body, err = takeIn(h.fetchMemory, f.Body, f.Length, h.o.MaxBody); err != nil {
		return f.Status, err
	}
	defer p.body.release()
	p.bodyLength = int64(len(p.body.bytes))
	h.bytesByTopicHost.spend(h.o.Now(), topicHostKey(egress.HostPortOf(p.topic), false), p.bodyLength)
	if p.plain = p.plain || !validate.IsSitemap(p.body.bytes); !p.plain {
		if _, err := mediaType(f.Header); err != nil {
			return f.Status, err
		}
	}
	if p.bodyLength == 0 {
		return f.Status, refuse(emptyContent, "The topic URI serves nothing, which is no news for anybody. Publish the notification itself, or ping once it is there.")
	}
	return f.Status, h.enter(ctx, p)
}

// describe reads what the topic's answer says of its content: its type, which alone
// may tell that it is plain (HUB-61), and what is relayed with it (HUB-44).
func (p *publication) describe(header http.Header) error {
	if coding := header.Get("Content-Encoding"); coding != "" {
		return refuse(unsupportedMediaType, "The topic URI answers in the Content-Encoding %q, and was asked for none.", coding)
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
		if u, err := base.Parse(target); err == nil && !strings.Contains(target, "://") {
			targets[i] = u.String()
		}
	}
	p.relay(targets)
	return nil
}

// shorten cuts a text that may hold much of a stranger's.
func shorten(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	n := maxDetail
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
