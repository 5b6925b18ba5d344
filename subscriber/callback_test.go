package subscriber

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/websub"
)

// What is asked for is confirmed to the byte, again if the hub did not get the
// answer; everything else is 404, and writes nothing (DST-07).
func TestVerification_DST07(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		f := l.form(0)
		callback, topic := f.Get(websub.ParamCallback), f.Get(websub.ParamTopic)
		w := l.get(l.sub, callback, "subscribe", topic, "x-_1", 7200)
		if w.Code != 200 || w.Body.String() != "x-_1" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			l.Errorf("a second verification: %d %q %v", w.Code, w.Body, w.Header())
		}
		if got := time.Until(l.status().Subscriptions[0].ExpiresAt); got != 2*time.Hour { // DST-08
			l.Errorf("the lease lasts %v", got)
		}
		before := l.lastWrite()
		for name, w := range map[string]*httptest.ResponseRecorder{
			"another callback": l.get(l.sub, "https://me.example/cb/AAAA", "subscribe", topic, "x", 1),
			"no callback":      l.get(l.sub, "https://me.example/cb/", "subscribe", topic, "x", 1),
			"another topic":    l.get(l.sub, callback, "subscribe", topic+"?invalid", "x", 1),
			"no challenge":     l.get(l.sub, callback, "subscribe", topic, "", 1),
			"an unsubscribe":   l.get(l.sub, callback, "unsubscribe", topic, "x", 1),
			"another mode":     l.get(l.sub, callback, "publish", topic, "x", 1),
			"a strange denial": l.get(l.sub, callback, "denied", topic+"2", "", 1),
			"a broken query":   l.get(l.sub, callback+"?%zz;", "", "", "", 1),
		} {
			if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "x") {
				l.Errorf("%s: %d %q", name, w.Code, w.Body)
			}
		}
		if n := l.lastWrite() - before; n != 0 {
			l.Errorf("strangers caused %d writes", n)
		}
		if st := l.status(); st.Counts.Refused["unasked"] != 8 || st.Subscriptions[0].State != "active" {
			l.Errorf("%+v", st)
		}
	})
}

// A lease that is empty is as good as none: a day, which is what a hub gives that does
// not tell (DST-08).
func TestEmptyLease_DST08(t *testing.T) {
	for name, params := range map[string][]websub.Param{
		"none":  nil,
		"empty": {{Name: websub.ParamLeaseSeconds}},
	} {
		subscribed(t, nil, func(l *lab) {
			f := l.form(0)
			query := append([]websub.Param{
				{Name: websub.ParamMode, Value: "subscribe"},
				{Name: websub.ParamTopic, Value: f.Get(websub.ParamTopic)},
				{Name: websub.ParamChallenge, Value: "abc"},
			}, params...)
			w := httptest.NewRecorder()
			l.sub.Handler().ServeHTTP(w, httptest.NewRequestWithContext(l.Context(), http.MethodGet, websub.AppendQuery(f.Get(websub.ParamCallback), query...), nil))
			if w.Code != http.StatusOK || w.Body.String() != "abc" {
				l.Errorf("%s: %d %q", name, w.Code, w.Body)
			}
			if got := time.Until(l.status().Subscriptions[0].ExpiresAt); got != 24*time.Hour {
				l.Errorf("%s: the lease lasts %v", name, got)
			}
		})
	}
}

// In no state of a subscription is anything confirmed that was not asked for, and what
// is refused changes nothing (DST-07, DST-14).
func TestUnaskedInAnyState_DST07_DST14(t *testing.T) {
	const token, topic = "TOKEN", "https://source.example/topic"
	s, err := Open(Options{Dir: t.TempDir(), Topic: topic, Callback: "https://me.example/"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	now := time.Now()
	later, before := now.Add(time.Hour), now.Add(-time.Hour)
	just, long := now.Add(-time.Minute), now.Add(-verifyWithin-time.Minute)
	for name, c := range map[string]struct {
		b    subscription
		mode websub.Mode
		want int
	}{
		"asked":                         {subscription{Wanted: websub.ModeSubscribe, AskedAt: just}, websub.ModeSubscribe, 200},
		"accepted just now":             {subscription{Wanted: websub.ModeSubscribe, AskedAt: long, AcceptedAt: just}, websub.ModeSubscribe, 200},
		"asked long ago":                {subscription{Wanted: websub.ModeSubscribe, AskedAt: long, AcceptedAt: long}, websub.ModeSubscribe, 404},
		"asked, the clock was set back": {subscription{Wanted: websub.ModeSubscribe, AskedAt: later}, websub.ModeSubscribe, 404},
		"the answer was lost":           {subscription{AskedAt: just, ExpiresAt: later}, websub.ModeSubscribe, 200},
		"in force":                      {subscription{AskedAt: long, AcceptedAt: long, ExpiresAt: later}, websub.ModeSubscribe, 404},
		"a renewal":                     {subscription{Wanted: websub.ModeSubscribe, AskedAt: just, ExpiresAt: later}, websub.ModeSubscribe, 200},
		"a lease that ran out":          {subscription{VerifiedAt: before, ExpiresAt: before}, websub.ModeSubscribe, 404},
		"denied":                        {subscription{AskedAt: just, Denied: "no", DeniedAt: just}, websub.ModeSubscribe, 404},
		"about to be ended":             {subscription{Wanted: websub.ModeUnsubscribe, AskedAt: just, ExpiresAt: later}, websub.ModeSubscribe, 404},
		"ended":                         {subscription{AskedAt: just, EndedAt: just}, websub.ModeSubscribe, 404},
		"the end was asked":             {subscription{Wanted: websub.ModeUnsubscribe, AskedAt: just, ExpiresAt: later}, websub.ModeUnsubscribe, 200},
		"the end was asked long ago":    {subscription{Wanted: websub.ModeUnsubscribe, AskedAt: long, ExpiresAt: later}, websub.ModeUnsubscribe, 404},
		"the end, again":                {subscription{AskedAt: just, EndedAt: just}, websub.ModeUnsubscribe, 200},
		"the end, long ago":             {subscription{AskedAt: long, EndedAt: long}, websub.ModeUnsubscribe, 404},
		"the end was not asked":         {subscription{AskedAt: just, ExpiresAt: later}, websub.ModeUnsubscribe, 404},
		"the end, while it is asked":    {subscription{Wanted: websub.ModeSubscribe, AskedAt: just}, websub.ModeUnsubscribe, 404},
		"a denial":                      {subscription{ExpiresAt: later}, websub.ModeDenied, 200},
		"a denial of what ended":        {subscription{EndedAt: before}, websub.ModeDenied, 404},
	} {
		c.b.Token, c.b.Topic = token, topic
		read := func() (b subscription) {
			if err := s.inbox.db.View(func(tx *tx) (err error) { b, _ = readSubscription(tx, token); return nil }); err != nil {
				t.Fatal(err)
			}
			return b
		}
		if err := s.inbox.update(func(tx *tx) error { return putSubscription(tx, c.b) }); err != nil {
			t.Fatal(err)
		}
		stored := read()
		w := httptest.NewRecorder()
		target := websub.AppendQuery("https://me.example/"+token, websub.Param{Name: websub.ParamMode, Value: string(c.mode)},
			websub.Param{Name: websub.ParamTopic, Value: topic}, websub.Param{Name: websub.ParamChallenge, Value: "ch4ll"})
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
		if w.Code != c.want || (w.Body.String() == "ch4ll") != (c.want == 200) {
			t.Errorf("%s: %d %q, want %d", name, w.Code, w.Body, c.want)
		}
		if now := read(); c.want == 404 && now != stored {
			t.Errorf("%s: %+v became %+v", name, stored, now)
		}
	}
}

// Whoever knows the callback may ask the hub for it with a secret of their own. The
// subscriber confirms that at no time but while it asks itself, also after a restart, so
// that its own secret stays in force (DST-07).
func TestOthersGetNothingConfirmed_DST07(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		f := l.form(0)
		callback, topic := f.Get(websub.ParamCallback), f.Get(websub.ParamTopic)
		refused := func(when, mode string) {
			l.Helper()
			if w := l.get(l.sub, callback, mode, topic, "theirs", 3600); w.Code != http.StatusNotFound {
				l.Errorf("%s: %s is answered %d %q", when, mode, w.Code, w.Body)
			}
		}
		l.after(verifyWithin)
		refused("in force", "subscribe")
		refused("in force", "unsubscribe")
		l.restart()
		l.after(time.Minute)
		refused("after a restart", "subscribe")
		// The renewal is asked for, and confirmed however often its answer is lost,
		// also by a process that was started in between.
		l.after(time.Hour)
		refused("before the renewal", "subscribe")
		l.mu.Lock()
		l.lease = 0 // the hub verifies below
		l.mu.Unlock()
		if err := l.sub.renewal.renewNow(); err != nil {
			l.Fatal(err)
		}
		l.after(time.Second)
		if l.requests() != 2 {
			l.Fatalf("%d requests", l.requests())
		}
		refused("during the renewal", "unsubscribe")
		l.restart()
		for range 2 {
			if w := l.get(l.sub, callback, "subscribe", topic, "ours", 10*24*3600); w.Code != 200 {
				l.Errorf("the renewal is answered %d %q", w.Code, w.Body)
			}
			l.after(time.Minute)
		}
		l.after(verifyWithin + 2*time.Second)
		refused("after the renewal", "subscribe")
		l.pushed(0, 1, 0.5)
		l.want("0.5")
	})
}

const weakSHA1 = "weak signature: the hub signs with sha1, and Options.MinSignature is sha256"

// What is unsigned or not rightly signed is refused and counted, and nothing of it is
// handed on; a method weaker than the floor counts as none (DST-13).
func TestSignatures_DST13(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		body := l.notification(0, 1, l.changes(0.5)...)
		secret := l.form(0).Get(websub.ParamSecret)
		if len(secret) < 40 || len(secret) >= 200 {
			l.Errorf("DST-04: a secret of %d bytes", len(secret))
		}
		for name, c := range map[string]struct {
			signature string
			want      int
		}{
			"none":         {"", 401},
			"another body": {websub.SHA256.Sign(secret, []byte("x")), 403},
			"another key":  {websub.SHA256.Sign(secret+"x", body), 403},
			"weak":         {websub.SHA1.Sign(secret, body), 403},
			"weak, forged": {websub.SHA1.Sign(secret+"x", body), 403},
			"unknown":      {"md5=" + strings.Repeat("0", 32), 403},
			"cut off":      {websub.SHA256.Sign(secret, body)[:40], 403},
			"no method":    {strings.TrimPrefix(websub.SHA256.Sign(secret, body), "sha256="), 403},
		} {
			if w := l.post("application/xml", body, websub.HeaderSignature, c.signature); w.Code != c.want {
				l.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		l.want("")
		if r := l.status().Counts; r.Refused["unsigned"] != 1 || r.Refused["wrong signature"] != 6 || r.Refused[weakSHA1] != 1 || r.Received != 0 {
			l.Errorf("%+v", r)
		}
		strong := websub.SHA512.Sign(secret, body)
		if w := l.post("application/xml", body, websub.HeaderSignature, "sha512="+strings.ToUpper(strong[7:])); w.Code != 204 {
			l.Errorf("a strong one: %d %s", w.Code, w.Body)
		}
		l.want("0.5")
	})
	subscribed(t, func(l *lab) { l.o.MinSignature = websub.SHA1 }, func(l *lab) {
		body := l.notification(0, 1)
		if w := l.post("application/xml", body, websub.HeaderSignature, websub.SHA1.Sign(l.form(0).Get(websub.ParamSecret), body)); w.Code != 204 {
			l.Errorf("a weak one that is allowed: %d", w.Code)
		}
	})
}

// A delivery is known by its callback and never by what it says of itself (DST-12);
// one to nobody is 404, one to a subscription that ended 410 (DST-11), and a stale
// one is dropped.
func TestForeignDeliveries_DST11_DST12(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		if w := l.post("application/xml", l.notification(0, 1, l.changes(0.5)...), "Link", `<https://other.example/>; rel="self"`); w.Code != 204 {
			l.Errorf("under another name: %d %s", w.Code, w.Body)
		}
		l.want("0.5")
		l.pushed(0, 1, 0.5)
		w := httptest.NewRecorder()
		l.sub.Handler().ServeHTTP(w, httptest.NewRequestWithContext(l.Context(), http.MethodPost, "/cb/AAAA", failing{}))
		if w.Code != 404 {
			l.Errorf("to nobody: %d", w.Code)
		}
		w = httptest.NewRecorder()
		l.sub.Handler().ServeHTTP(w, httptest.NewRequestWithContext(l.Context(), http.MethodPut, l.form(0).Get(websub.ParamCallback), nil))
		if w.Code != 405 || w.Header().Get("Allow") != "GET, POST" {
			l.Errorf("a PUT: %d", w.Code)
		}
		l.stop()
		if err := l.sub.Unsubscribe(l.Context()); err != nil { // DST-14
			l.Fatal(err)
		}
		l.after(2 * time.Second)
		f := l.form(-1)
		if f.Get(websub.ParamMode) != "unsubscribe" || f.Get(websub.ParamCallback) != l.form(0).Get(websub.ParamCallback) {
			l.Errorf("%v", f)
		}
		if again := l.get(l.sub, f.Get(websub.ParamCallback), "unsubscribe", labTopic, "y", 0); again.Code != 200 {
			l.Errorf("a second verification: %d", again.Code)
		}
		if got := l.push(1, 2, 1.5); got != 410 {
			l.Errorf("after the end: %d", got)
		}
		l.want("")
		if st := l.status(); st.Counts.Refused["ended"] != 1 || st.Counts.Refused["unknown callback"] != 1 || st.Counts.Duplicates != 1 || st.Subscriptions[0].State != "ended" {
			l.Errorf("%+v", st)
		}
	})
}

// When 2xx is answered the notification is in the file (DST-10): a copy of it made
// in that instant has it.
func TestDurableBefore204_DST10(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		for i := range 10 {
			l.pushed(float64(i), float64(i+1), float64(i))
			dir := l.TempDir()
			if err := os.CopyFS(dir, os.DirFS(l.o.Dir)); err != nil {
				l.Fatal(err)
			}
			st, err := openState(dir, func(*tx) error { return nil })
			if err != nil {
				l.Fatal(err)
			}
			n := 0
			_ = st.View(func(tx *tx) error { n = tx.Bucket(inboxBucket).Len(); return nil })
			_ = st.Close()
			if n != i+1 {
				l.Fatalf("after %d answers of 204 there are %d notifications on disk", i+1, n)
			}
		}
	})
}

// What is answered 2xx has to outlive a power failure, which no test can bring about:
// the database is not told to leave out an fsync.
func TestSynced_DST10(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Topic: "https://source.example/"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	broken := errors.New("input/output error")
	s.inbox.db.InterceptSync(func(string, func() error) error { return broken })
	if err := s.inbox.db.Update(func(tx *boltfile.Tx) error { return tx.SetFormat(tx.Format()) }); !errors.Is(err, broken) {
		t.Errorf("a write whose sync fails: %v", err)
	}
}

// Without room on the disk the hub is told to come again, nothing is half there,
// and it works again when there is room.
func TestDiskFull(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.pushed(0, 1, 0.5)
		before := l.status().Counts
		l.sub.inbox.db.Bolt().MaxSize = 1
		body := l.notification(1, 2, append(l.changes(1.5), l.change(1.6))...)
		big := append(body, []byte("<!--"+strings.Repeat("x", 8<<20)+"-->")...) //nolint:gocritic // another slice is meant
		if w := l.post("application/xml", big); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			l.Errorf("%d %s", w.Code, w.Body)
		}
		if now := l.status().Counts; now.Backlog != before.Backlog || now.Batches != before.Batches {
			l.Errorf("%+v, was %+v", now, before)
		}
		l.sub.inbox.db.Intercept(func(commit func() error) error {
			l.sub.inbox.db.Intercept(nil)
			return errors.Join(commit(), syscall.ENOSPC)
		})
		synced := false
		l.sub.inbox.db.InterceptSync(func(path string, _ func() error) error {
			synced = synced || filepath.Base(path) == "subscriber.db"
			return nil
		})
		failed := l.lastWrite()
		if w := l.post("application/xml", big); w.Code != 503 {
			l.Errorf("%d %s", w.Code, w.Body)
		}
		if w := l.post("application/xml", big); w.Code != 204 { // what it is a duplicate of may not have been on disk
			l.Errorf("%d %s", w.Code, w.Body)
		}
		if !synced || l.lastWrite() != failed+1 {
			l.Errorf("a duplicate is answered after a failed write, and the file was synced: %t; %d writes", synced, l.lastWrite()-failed)
		}
		l.want("0.5 1.5 1.6")
	})
}

func TestBodiesAreBounded(t *testing.T) {
	subscribed(t, func(l *lab) { l.o.MaxBody = 1000 }, func(l *lab) {
		long := bytes.Repeat([]byte("x"), 1001)
		if w := l.post("text/plain", long); w.Code != 413 {
			l.Errorf("too large: %d", w.Code)
		}
		post := func(body io.Reader) int {
			r := httptest.NewRequestWithContext(l.Context(), http.MethodPost, l.form(0).Get(websub.ParamCallback), body)
			r.ContentLength = -1
			w := httptest.NewRecorder()
			l.sub.Handler().ServeHTTP(w, r)
			return w.Code
		}
		if got := post(bytes.NewReader(long)); got != 413 {
			l.Errorf("too large, without saying so: %d", got)
		}
		if got := post(failing{}); got != 400 {
			l.Errorf("cut off: %d", got)
		}
		r, w := io.Pipe()
		answers := make(chan int)
		for range bodiesAtOnce {
			go func() { answers <- post(r) }()
		}
		l.after(time.Second)
		if got := l.push(0, 1); got != 503 {
			l.Errorf("one too many at once: %d", got)
		}
		_ = w.Close()
		for range bodiesAtOnce {
			if got := <-answers; got != 401 {
				l.Errorf("a slow one: %d", got)
			}
		}
		l.pushed(0, 1)
	})
}

// What does not fit a topic of changes is refused (DST-15), and so is an interval
// that has yet to come, since nothing would follow on it.
func TestInvalid_DST15(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		legacy := bytes.Replace(l.notification(0, 1, l.changes(0.5)...), []byte("change-notification"), []byte("changelist-notification"), 1)
		for name, c := range map[string]struct {
			body []byte
			want int
		}{
			"no XML":       {[]byte("hello"), 422},
			"another root": {[]byte("<feed/>"), 422},
			"cut off":      {l.notification(0, 1, l.changes(0.5)...)[:300], 422},
			"a list":       {bytes.Replace(legacy, []byte("changelist-notification"), []byte("resourcelist"), 1), 422},
			"the future":   {l.notification(0, 3*24*3600), 422},
			"legacy":       {legacy, 204},
		} {
			if w := l.post("application/xml", c.body); w.Code != c.want {
				l.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		l.want("0.5")
	})
}
