package subscriber

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/websub"
)

func key(l *lab, i int) string {
	f := l.form(i)
	return f.Get(websub.ParamCallback) + " " + f.Get(websub.ParamSecret)
}

// A lease is renewed ahead of its end, with the same callback and secret, over
// restarts too (DST-08); the callback can't be guessed and the secret is as long as
// may be (DST-04).
func TestRenewal_DST04_DST08(t *testing.T) {
	subscribed(t, func(l *lab) { l.lease = 1000 }, func(l *lab) {
		if !strings.HasPrefix(key(l, 0), "https://me.example/cb/") || len(key(l, 0)) < len("https://me.example/cb/")+26+52 {
			l.Errorf("%s", key(l, 0))
		}
		if f := l.form(0); f.Get(websub.ParamLeaseSeconds) != "864000" || f.Get(websub.ParamTopic) != labTopic || f.Get(websub.ParamMode) != "subscribe" {
			l.Errorf("%v", f)
		}
		l.after(700 * time.Second)
		l.restart()
		if l.requests() != 1 {
			l.Errorf("%d requests before the time", l.requests())
		}
		l.after(150 * time.Second)
		if l.requests() != 2 || key(l, 1) != key(l, 0) {
			l.Errorf("%d requests; %s, then %s", l.requests(), key(l, 0), key(l, 1))
		}
		l.after(20_000 * time.Second)
		if n := l.requests(); n < 20 || n > 30 || l.status().Subscriptions[0].State != "active" {
			l.Errorf("%d requests", n)
		}
		apart := map[time.Duration]bool{}
		for i := 3; i < len(l.asked); i++ {
			apart[l.asked[i].Sub(l.asked[i-1]).Round(10*time.Second)] = true
		}
		if len(apart) < 3 {
			l.Errorf("no jitter: %v", apart)
		}
	})
}

// A lease far longer than any hub should give is renewed in its first month.
func TestLongLease(t *testing.T) {
	subscribed(t, func(l *lab) { l.lease = 1 << 62 }, func(l *lab) {
		if got := time.Until(l.status().Subscriptions[0].RenewAt); got < 20*24*time.Hour || got > 31*24*time.Hour {
			l.Errorf("to be renewed in %v", got)
		}
	})
}

// A hub that answers 400 to the lease is asked again without one, at each renewal as
// well; one that has another reason for its 400 gets no third request at once.
func TestHubWithLeasesOfItsOwn(t *testing.T) {
	picky := func(l *lab) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.PostFormValue(websub.ParamLeaseSeconds) != "" {
				http.Error(w, "hub.lease_seconds is not known here", http.StatusBadRequest)
				return
			}
			l.hub(w, r)
		}
	}
	subscribed(t, func(l *lab) { l.lease = 1000; l.page(labHub, picky(l)) }, func(l *lab) {
		if f := l.form(0); f.Has(websub.ParamLeaseSeconds) || len(f.Get(websub.ParamSecret)) < 40 {
			l.Errorf("%v", f)
		}
		l.after(900 * time.Second)
		if l.requests() != 2 || key(l, 1) != key(l, 0) || l.status().Trouble != "" {
			l.Errorf("%d requests; %+v", l.requests(), l.status())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l := newLab(t, func(l *lab) {
			l.page(labHub, func(w http.ResponseWriter, _ *http.Request) {
				n++
				http.Error(w, "I do not like your callback", http.StatusBadRequest)
			})
		})
		if st := l.status(); n != 2 || !strings.Contains(st.Trouble, "I do not like your callback") {
			l.Errorf("%d requests, trouble %q", n, st.Trouble)
		}
	})
}

// A lease that ran out while the hub was away is asked for again, with the same
// callback, and what happened in between is taken from the Change List. The log tells
// the gap as the status does.
func TestLostLease(t *testing.T) {
	var log bytes.Buffer
	subscribed(t, func(l *lab) { l.lease, l.o.Log = 1000, slog.New(slog.NewJSONHandler(&log, nil)) }, func(l *lab) {
		l.pushed(0, 10, 5)
		l.page(labHub, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "away", http.StatusBadGateway) })
		l.after(2000 * time.Second)
		if st := l.status(); st.Subscriptions[0].State != "expired" || !strings.Contains(st.Trouble, "502") {
			l.Errorf("%+v", st)
		}
		l.listed(5, 15)
		l.page(labHub, l.hub)
		l.after(subscribeMax + time.Minute)
		if st := l.status(); st.Subscriptions[0].State != "active" || st.Trouble != "" || key(l, -1) != key(l, 0) {
			l.Errorf("%+v", st)
		}
		l.want("5 15")
		if got := l.gaps(); got != "lease repaired 10-15:1" {
			l.Error(got)
		}
		if want := `"event":"gap_repaired","from":"` + stamp(l, 10) + `","until":"` + stamp(l, 15) + `"`; !strings.Contains(log.String(), want) {
			l.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	})
}

// When the topic names another hub or has moved, or the options have changed, there
// is a new subscription with a callback of its own, and the old one is ended once
// the new one is in force; deliveries to either count meanwhile.
func TestMoved(t *testing.T) {
	const newHub, newTopic = "https://hub2.example/", "https://source2.example/topic"
	for name, move := range map[string]func(l *lab) (topic, hub string){
		"hub": func(l *lab) (string, string) {
			l.page(labTopic, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", `<`+labTopic+`>; rel=self, <`+newHub+`>; rel=hub`)
			})
			return labTopic, newHub
		},
		"topic": func(l *lab) (string, string) {
			l.page(labTopic, http.RedirectHandler(newTopic, http.StatusMovedPermanently).ServeHTTP)
			l.page(newTopic, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", `<`+newTopic+`>; rel=self, <`+labHub+`>; rel=hub`)
			})
			return newTopic, labHub
		},
		"callback": func(l *lab) (string, string) {
			l.o.Callback = "https://me2.example/"
			l.restart()
			return labTopic, labHub
		},
		"options": func(l *lab) (string, string) {
			l.o.Hub = newHub
			l.restart()
			return labTopic, newHub
		},
	} {
		t.Run(name, func(t *testing.T) {
			subscribed(t, func(l *lab) { l.lease = 1000; l.page(newHub, l.hub) }, func(l *lab) {
				topic, hub := move(l)
				l.after(850 * time.Second)
				var seen []string
				for i := range l.requests() {
					f := l.form(i)
					seen = append(seen, f.Get(websub.ParamMode)+" "+f.Get(websub.ParamTopic))
				}
				if strings.Join(seen[:3], ", ") != "subscribe "+labTopic+", subscribe "+topic+", unsubscribe "+labTopic {
					l.Errorf("%v", seen)
				}
				if key(l, 1) == key(l, 0) || l.form(2).Get(websub.ParamCallback) != l.form(0).Get(websub.ParamCallback) {
					l.Errorf("%v", l.forms)
				}
				if !l.asked[2].After(l.asked[1]) {
					l.Error("the old one was ended before the new one was verified")
				}
				states := map[string]string{}
				for _, s := range l.status().Subscriptions {
					states[s.State] = s.Topic + " " + s.Hub
				}
				if len(states) != 2 || states["active"] != topic+" "+hub || states["ended"] != labTopic+" "+labHub {
					l.Errorf("%v", states)
				}
			})
		})
	}
}

// A hub that is named with a slash at one time and without at another is the same hub:
// its subscription goes on, wherever it is named.
func TestHubURLWithoutItsSlash(t *testing.T) {
	const bare = "https://hub.example"
	for name, move := range map[string]func(l *lab){
		"the topic": func(l *lab) {
			l.page(labTopic, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", `<`+labTopic+`>; rel=self, <`+bare+`>; rel=hub`)
			})
		},
		"the options": func(l *lab) {
			l.o.Hub = bare
			l.restart()
			l.o.Hub = labHub
			l.restart()
			l.o.Hub = bare
			l.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			subscribed(t, func(l *lab) {
				l.lease = 1000
				l.page(bare, l.hub)
				l.o.Hub = map[bool]string{true: labHub}[name == "the options"]
			}, func(l *lab) {
				move(l)
				l.after(850 * time.Second)
				for i := range l.requests() {
					if f := l.form(i); f.Get(websub.ParamMode) != "subscribe" || f.Get(websub.ParamCallback) != l.form(0).Get(websub.ParamCallback) {
						l.Errorf("%v", f)
					}
				}
				if n := l.requests(); n != 2 { // the second renews it
					l.Errorf("%d requests", n)
				}
				if s := l.status().Subscriptions; len(s) != 1 || s[0].State != "active" {
					l.Errorf("%+v", s)
				}
			})
		})
	}
	d, err := Discover(t.Context(), &lab{T: t, at: map[string]http.HandlerFunc{labTopic: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<`+bare+`>; rel=hub, <`+labHub+`>; rel=hub, <`+labHub+`x>; rel=hub`)
	}}}, labTopic)
	if err != nil || strings.Join(d.Hubs, " ") != bare+" "+labHub+"x" {
		t.Errorf("%q, %v", d.Hubs, err)
	}
}

// Links are relative to where a redirect led, also with an *http.Client.
func TestDiscoverByHTTPClient_DST02(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/topic", http.RedirectHandler("/moved/", http.StatusFound))
	mux.HandleFunc("/moved/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<now>; rel=self, <hub>; rel=hub`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	if d, err := Discover(t.Context(), s.Client(), s.URL+"/topic"); err != nil || d.Topic != s.URL+"/moved/now" {
		t.Errorf("%+v, %v", d, err)
	}
}

// Where the topic names several hubs the one in use stays, in whatever order they
// come, and https goes before http (DST-03).
func TestChoose_DST03(t *testing.T) {
	for want, c := range map[string]struct {
		hubs   []string
		before string
	}{
		"https://a/": {[]string{"http://x/", "https://a/", "https://b/"}, ""},
		"https://b/": {[]string{"https://a/", "https://b/"}, "https://b/"},
		"https://c/": {[]string{"http://x/", "https://c/"}, "http://x/"},
		"http://x/":  {[]string{"http://x/", "http://y/"}, ""},
		"http://y/":  {[]string{"http://x/", "http://y/"}, "http://y/"},
		"https://d/": {[]string{"https://d/"}, "https://gone/"},
		"https://e":  {[]string{"https://a/", "https://e/"}, "https://e"},
	} {
		if got := choose(c.hubs, c.before); got != want {
			t.Errorf("%v before %q: %s, want %s", c.hubs, c.before, got, want)
		}
	}
}

// A hub that says no is asked again after an hour, whether the subscription was
// in force or not (DST-09).
func TestDenied_DST09(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		w := l.get(l.sub, l.form(0).Get(websub.ParamCallback), "denied", labTopic, "", 0)
		if st := l.status().Subscriptions[0]; w.Code != 200 || st.State != "denied" || st.Denied != "no reason given" {
			l.Errorf("%d %+v", w.Code, st)
		}
		l.after(59 * time.Minute)
		if l.requests() != 1 {
			l.Error("asked again too soon")
		}
		l.after(2 * time.Minute)
		if st := l.status().Subscriptions[0]; l.requests() != 2 || st.State != "active" || st.Denied != "" {
			l.Errorf("%d requests, %+v", l.requests(), st)
		}
	})
}

// Denials need no signature: whoever repeats them, before the hub or after it, does not
// keep the subscriber from asking again, and writes one line to the log.
func TestDeniedAgainAndAgain_DST09(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		callback := l.form(0).Get(websub.ParamCallback)
		for range 6 {
			if w := l.get(l.sub, callback, "denied", labTopic, "", 0); w.Code != 200 {
				l.Errorf("answered with %d", w.Code)
			}
			l.after(10 * time.Minute)
		}
		l.after(time.Minute)
		if st := l.status().Subscriptions[0]; l.requests() != 2 {
			l.Errorf("%d requests, %+v", l.requests(), st)
		}
	})
}

// A request that is accepted is not in force yet (DST-05): one that is never verified
// is made again, and the status says why.
func TestNeverVerified_DST05(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(l *lab) { l.lease = 0 })
		l.after(verifyWithin + 10*time.Second)
		if st := l.status(); l.requests() != 2 || st.Subscriptions[0].State != "pending" || !strings.Contains(st.Trouble, "can it reach https://me.example/cb?") {
			t.Errorf("%d requests, %+v", l.requests(), st)
		}
		if key(l, 0) != key(l, 1) {
			t.Error("another callback")
		}
		l.mu.Lock()
		l.lease = 1000
		l.mu.Unlock()
		l.after(verifyWithin)
		if st := l.status(); st.Subscriptions[0].State != "active" || st.Trouble != "" {
			t.Errorf("%+v", st)
		}
	})
}

// A hub that fails is asked after ever longer pauses, and never before it said; what
// it says is kept for the developer (DST-05).
func TestHubFails_DST05(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retryAfter := ""
		l := newLab(t, func(l *lab) {
			l.page(labHub, func(w http.ResponseWriter, _ *http.Request) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.asked = append(l.asked, time.Now())
				w.Header().Set("Retry-After", retryAfter)
				http.Error(w, "no such\nluck", http.StatusTooManyRequests)
			})
		})
		l.after(time.Hour)
		if n := l.asks(); n < 8 || n > 15 {
			t.Errorf("%d requests in an hour", n)
		}
		if st := l.status(); !strings.Contains(st.Trouble, `429 Too Many Requests: no such luck`) {
			t.Errorf("%q", st.Trouble)
		}
		l.mu.Lock()
		retryAfter = "1800"
		l.mu.Unlock()
		l.after(subscribeMax)
		n := l.asks()
		l.after(29 * time.Minute)
		if l.asks() > n+1 {
			t.Error("asked before Retry-After")
		}
	})
}

// A hub that verifies before it answers, or whose answer is lost, is understood
// (DST-07).
func TestVerifiedBeforeAccepted_DST07(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(n *lab) {
			n.page(labHub, func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				n.forms = append(n.forms, r.PostForm)
				sub := n.sub
				if got := n.get(sub, r.PostForm.Get(websub.ParamCallback), "subscribe", labTopic, "abc", 1000); got.Code != 200 { //nolint:contextcheck // it is another request
					t.Errorf("%d", got.Code)
				}
				http.Error(w, "lost", http.StatusGatewayTimeout)
			})
		})
		l.after(time.Minute)
		if st := l.status(); st.Subscriptions[0].State != "active" || l.requests() != 1 {
			t.Errorf("%d requests, %+v", l.requests(), st)
		}
	})
}

// A clock that was set back keeps nothing from being done.
func TestClockSetBack(t *testing.T) {
	now := time.Now()
	year := now.AddDate(1, 0, 0)
	for name, c := range map[string]struct {
		b    subscription
		want time.Duration
	}{
		"in force":  {subscription{Token: "t", VerifiedAt: year, ExpiresAt: year.Add(time.Hour), RenewAt: year}, 0},
		"denied":    {subscription{Token: "t", DeniedAt: year}, deniedRest},
		"unchecked": {subscription{Token: "t", Wanted: websub.ModeSubscribe, AcceptedAt: year}, verifyWithin},
	} {
		if got := c.b.due(now); got != c.want {
			t.Errorf("%s: looked at in %v, want %v", name, got, c.want)
		}
	}
}

// A hub that does not deliver, though a lease is in force, is found out: what was not
// pushed is handed on, and the subscription renewed.
func TestSilentHub(t *testing.T) {
	subscribed(t, func(l *lab) { l.o.CheckEvery = time.Hour }, func(l *lab) {
		l.pushed(0, 10, 5)
		l.listed(5, 15)
		l.after(2 * time.Hour)
		l.want("5 15")
		if got := l.gaps(); got != "check repaired 10-15:1" || l.requests() != 2 || key(l, 0) != key(l, 1) {
			l.Errorf("%s, %d requests", got, l.requests())
		}
	})
}

// A secret goes to an http hub only where that is wanted, or on this machine (DST-04).
func TestSecretOverHTTP_DST04(t *testing.T) {
	for hub, want := range map[string]bool{
		"https://hub.example/": true, "http://hub.example/": false, "http://127.0.0.1:8080/": true, "http://[::1]/": true,
		"http://localhost/": true, "http://localhost.example/": false,
	} {
		o := Options{Callback: "https://me.example/"}
		if got := o.newSubscription("t", hub).Secret != ""; got != want {
			t.Errorf("%s: %v", hub, got)
		}
		if o.InsecureSecret = true; o.newSubscription("t", hub).Secret == "" {
			t.Errorf("%s: none though it was wanted", hub)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(l *lab) {
			l.page(labHub, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://hub.example/")
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			l.page("http://hub.example/", func(http.ResponseWriter, *http.Request) { t.Error("the secret was sent on") })
		})
		l.after(time.Minute)
	})
}
