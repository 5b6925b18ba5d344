package app

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// A hub that was stopped keeps no connection to a callback.
func TestStopClosesIdleConnections(t *testing.T) {
	var open atomic.Int64
	verified, delivered := make(chan struct{}, 1), make(chan struct{}, 1)
	callback := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			verified <- struct{}{}
			return
		}
		delivered <- struct{}{}
	}))
	callback.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	callback.Start()
	defer callback.Close()

	a := newApp(t, "--topic-check=off")
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	const topic = "http://127.0.0.1:2/topic"
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback.URL}}
	if status, _ := post(t, a.HubURL(), "application/x-www-form-urlencoded", form.Encode(), ""); status != http.StatusAccepted {
		t.Fatalf("subscribing: %d", status)
	}
	<-verified
	if status, _ := post(t, a.HubURL(), "application/xml", notification(0, 1), `<`+topic+`>; rel="self", <`+a.HubURL()+`>; rel="hub"`); status != http.StatusOK {
		t.Fatalf("publishing: %d", status)
	}
	<-delivered
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open a minute after Stop", open.Load())
		}
	}
}
