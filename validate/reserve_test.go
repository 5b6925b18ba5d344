package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
)

// forEstablished asks on behalf of an established topic, and asked for a requester.
func forEstablished(ctx context.Context) context.Context {
	return egress.WithAsker(ctx, egress.Asker{Reserve: fakeTopic, Established: true})
}

func asked(ctx context.Context, requester int) context.Context {
	return egress.WithAsker(ctx, egress.Asker{Requester: uint64(requester)})
}

// The good answer of an established topic counts for 24 hours while asking again says
// nothing against it, and no longer. An answer that does not name this hub ends it at
// once, and so it does for strangers who bring it about.
func TestGoodAnswerOfAnEstablishedTopicStays_HUB53(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	client, err := egress.New(egress.Options{Proxy: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fakeTopic, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_, own := client.Do(req) //nolint:bodyclose // there is no answer
	if egress.Classify(own) != egress.FailureOwn {
		t.Fatal(own)
	}
	for name, tc := range map[string]struct {
		change func(*fakeDoer)
		stays  bool
	}{
		"502":                {func(f *fakeDoer) { f.status = http.StatusBadGateway }, true},
		"no DNS":             {func(f *fakeDoer) { f.err = &net.DNSError{Err: "no such host", Name: "example.org"} }, true},
		"a time limit":       {func(f *fakeDoer) { f.delay = time.Hour }, true},
		"over the budget":    {func(f *fakeDoer) { f.err = &egress.BudgetError{Target: "192.0.2.1", Wait: time.Minute} }, true},
		"no way out":         {func(f *fakeDoer) { f.err = own }, true},
		"429":                {func(f *fakeDoer) { f.status = http.StatusTooManyRequests }, false},
		"no connection":      {func(f *fakeDoer) { f.err = refused }, false},
		"404":                {func(f *fakeDoer) { f.status = http.StatusNotFound }, false},
		"a redirect":         {func(f *fakeDoer) { f.status = http.StatusFound }, false},
		"another hub":        {func(f *fakeDoer) { f.header = http.Header{"Link": {links(fakeTopic, "https://other.example/")}} }, false},
		"an address refused": {func(f *fakeDoer) { f.err = &egress.RefusedError{} }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := goodDoer()
			c := checker(t, TopicOptions{Client: d, Remember: 10})
			ask := func(ctx context.Context) string { return outcome(c.Check(ctx, fakeTopic)) }
			if got := ask(forEstablished(t.Context())); got != "good" {
				t.Fatal(got)
			}
			for i := range 50 { // which other names do not push out
				_ = c.Check(t.Context(), fmt.Sprintf("https://example.org/%d", i))
			}
			d.set(tc.change)
			time.Sleep(RememberGood)
			if got := ask(forEstablished(t.Context())); (got == "good") != tc.stays {
				t.Errorf("%s: %s after 5 minutes", name, got)
			}
			if got := ask(t.Context()); got == "good" {
				t.Errorf("%s: good also for one who asks about a topic that is not established", name)
			}
			time.Sleep(StayGood - RememberGood - 5*time.Minute)
			if got := ask(forEstablished(t.Context())); (got == "good") != tc.stays {
				t.Errorf("%s: %s after nearly 24 hours", name, got)
			}
			time.Sleep(5 * time.Minute)
			if got := ask(forEstablished(t.Context())); got == "good" {
				t.Errorf("%s: good after 24 hours", name)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		c := checker(t, TopicOptions{Client: d})
		for _, status := range []int{http.StatusOK, http.StatusNotFound, http.StatusBadGateway} {
			d.set(func(f *fakeDoer) { f.status = status })
			ctx := forEstablished(t.Context())
			if status == http.StatusNotFound {
				ctx = t.Context() // a stranger has it asked
			}
			_ = c.Check(ctx, fakeTopic)
			time.Sleep(RememberGood)
		}
		if got := outcome(c.Check(forEstablished(t.Context()), fakeTopic)); got != "unsure" {
			t.Errorf("%s after an answer that does not name this hub", got)
		}
	})
}

// The answers to a comparison and to a fetch end it as well, though these are not asked
// whom the topic names: no answer that does not name this hub is passed over.
func TestEveryAnswerEndsAGoodOne_HUB53(t *testing.T) {
	const body = "<urlset/>"
	compare := func(c *TopicChecker, ctx context.Context) { _ = c.Content(ctx, fakeTopic, "", []byte(body)) }
	get := func(c *TopicChecker, ctx context.Context) { _, _, _ = fetch(ctx, c, fakeTopic) }
	header := func(h http.Header) func(*fakeDoer) { return func(f *fakeDoer) { f.header = h } }
	status := func(s int) func(*fakeDoer) { return func(f *fakeDoer) { f.status = s } }
	feed := `<rss xmlns:atom="http://www.w3.org/2005/Atom"><channel>` + atomLinks(fakeTopic, hubURL) + `</channel></rss>`
	for name, tc := range map[string]struct {
		ask    func(*TopicChecker, context.Context)
		change func(*fakeDoer)
		served string
		stays  bool
	}{
		"compared, this hub":      {compare, func(*fakeDoer) {}, body, true},
		"compared, 502":           {compare, status(http.StatusBadGateway), body, true},
		"compared, in a feed":     {compare, header(http.Header{"Content-Type": {"application/xml"}}), feed, true},
		"compared, another hub":   {compare, header(http.Header{"Link": {links(fakeTopic, "https://other.example/")}}), body, false},
		"compared, no hub":        {compare, header(http.Header{"Content-Type": {"application/xml"}}), body, false},
		"compared, no hub or XML": {compare, header(nil), body, false},
		"compared, 404":           {compare, status(http.StatusNotFound), body, false},
		"compared, a redirect":    {compare, status(http.StatusFound), body, false},
		"fetched, this hub":       {get, func(*fakeDoer) {}, body, true},
		"fetched, 502":            {get, status(http.StatusBadGateway), body, true},
		"fetched, another hub":    {get, header(http.Header{"Link": {links(fakeTopic, "https://other.example/")}}), body, false},
		"fetched, 410":            {get, status(http.StatusGone), body, false},
		"fetched, a redirect":     {get, status(http.StatusFound), body, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := goodDoer()
			c := checker(t, TopicOptions{Client: d})
			if err := c.Check(forEstablished(t.Context()), fakeTopic); err != nil {
				t.Fatal(err)
			}
			time.Sleep(RememberGood)
			d.set(tc.change)
			d.set(func(f *fakeDoer) {
				f.body = func(context.Context) io.ReadCloser { return io.NopCloser(strings.NewReader(tc.served)) }
			})
			tc.ask(c, forEstablished(t.Context()))
			time.Sleep(RememberGood)
			d.set(status(http.StatusBadGateway))
			if got := outcome(c.Check(forEstablished(t.Context()), fakeTopic)); (got == "good") != tc.stays {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
}

// Checks under way are counted by requester, and those of strangers leave room for
// what is established. Who has a reserve shares no check with a stranger.
func TestChecksUnderWayAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		d.delay = 10 * time.Second
		c := checker(t, TopicOptions{Client: d})
		var wg sync.WaitGroup
		from := func(requester, n int) {
			for i := range n {
				wg.Go(func() {
					_ = c.Check(asked(t.Context(), requester), fmt.Sprintf("https://r%d.example/%d", requester, i))
				})
			}
			synctest.Wait()
		}
		from(1, maxChecks)
		if got := d.count(); got != maxChecks/requesterFraction {
			t.Errorf("%d checks of one requester are under way, want %d", got, maxChecks/requesterFraction)
		}
		for requester := 2; requester < 10; requester++ {
			from(requester, maxChecks/requesterFraction)
		}
		if got := d.count(); got != maxChecks {
			t.Errorf("%d checks of strangers are under way, want %d", got, maxChecks)
		}
		wg.Go(func() {
			if err := c.Check(forEstablished(t.Context()), fakeTopic); err != nil {
				t.Errorf("an established topic: %v", err)
			}
		})
		synctest.Wait()
		if got := d.count(); got != maxChecks+1 {
			t.Error("an established topic is not asked")
		}
		wg.Wait()
		if len(c.flights)+c.strangers.all+c.reserved.all+len(c.strangers.by)+len(c.reserved.by) > 0 {
			t.Errorf("%d flights are left, and %v and %v", len(c.flights), c.strangers, c.reserved)
		}
	})
}

// Strangers who use the budget of an address up, and who have the very topic asked,
// keep no established topic from being checked; a target gets no more than its budget.
func TestStrangersDoNotUseTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		c := checker(t, TopicOptions{Client: d, Budget: egress.NewBudget(20)})
		d.set(func(f *fakeDoer) { f.header, f.delay = nil, time.Second })
		for i := range 100 {
			go func() { _ = c.Check(asked(t.Context(), i), fmt.Sprintf("https://example.org/nonsense/%d", i)) }()
		}
		synctest.Wait()
		var denied *DeniedError
		if err := c.Check(asked(t.Context(), 1), fakeTopic); outcome(err) != "wait" {
			t.Errorf("a stranger who names the topic: %v", err)
		}
		if err := c.Check(forEstablished(t.Context()), fakeTopic); !errors.As(err, &denied) {
			t.Errorf("the topic was not asked: %v", err)
		}
		if got := d.count(); got > 20 {
			t.Errorf("%d requests", got)
		}
	})
}

// However many post to a topic at once, it is asked by one request at a time, whose
// answer counts for all who came before it; no caller waits for more than two.
func TestContentIsAskedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := goodDoer()
		d.delay = time.Second
		d.body = func(context.Context) io.ReadCloser { return io.NopCloser(strings.NewReader("served")) }
		c := checker(t, TopicOptions{Client: d})
		var wg sync.WaitGroup
		post := func(body, want string, within time.Duration) {
			wg.Go(func() {
				start := time.Now()
				if err := c.Content(forEstablished(t.Context()), fakeTopic, "", []byte(body)); outcome(err) != want || time.Since(start) > within {
					t.Errorf("%q: %v after %v, want %s within %v", body, err, time.Since(start), want, within)
				}
			})
		}
		post("forged", "mismatch", time.Second)
		time.Sleep(time.Millisecond)
		for i := range 100 {
			post(fmt.Sprint("forged", i), "mismatch", 2*time.Second)
		}
		for _, body := range []string{"serve", "served and more", ""} {
			post(body, "mismatch", 2*time.Second)
		}
		post("served", "good", 2*time.Second)
		wg.Wait()
		if d.count() != 2 || len(c.readings) != 0 {
			t.Errorf("%d requests, and %d are left", d.count(), len(c.readings))
		}
	})
}
