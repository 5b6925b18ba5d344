package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/test/scripts"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rshub": main})
}

// The scripts run the real command.
func TestScripts(t *testing.T) {
	setup := func(e *testscript.Env) error {
		for _, name := range []string{"ADDR", "ADMIN", "CALLBACK"} {
			e.Setenv(name, ports.Addr())
		}
		return nil
	}
	scripts.Run(t, "testdata/script", setup, map[string]scripts.Command{"post": post, "eventually-post": eventuallyPost, "keep": keep})
}

// post sends a file and expects a status.
func post(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := posted(ctx, ts, args); err != nil {
		ts.Fatalf("%v", err)
	}
}

// eventuallyPost sends a file until the answer has the expected status.
func eventuallyPost(ts *testscript.TestScript, _ bool, args []string) {
	scripts.Poll(ts, func(ctx context.Context) error { return posted(ctx, ts, args) })
}

func posted(ctx context.Context, ts *testscript.TestScript, args []string) error {
	if len(args) < 3 {
		ts.Fatalf("usage: post STATUS URL FILE [HEADER...]")
	}
	body := os.Expand(strings.TrimSpace(ts.ReadFile(args[2])), ts.Getenv)
	status, err := request(ctx, http.MethodPost, args[1], strings.NewReader(body), args[3:]...)
	if err == nil && strconv.Itoa(status) != args[0] {
		err = fmt.Errorf("it answers %d", status)
	}
	return err
}

// keep stores the last command's output in a variable of the environment.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: keep NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func request(ctx context.Context, method, url string, body io.Reader, header ...string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// fakeHub ends as the test says.
type fakeHub struct {
	start  error
	failed chan error
	stop   chan error // Stop waits for it
	stops  chan struct{}
	reload chan struct{} // nil: it is not asked to
}

func (h *fakeHub) Start(context.Context) error { return h.start }
func (h *fakeHub) Failed() <-chan error        { return h.failed }
func (h *fakeHub) Reload()                     { h.reload <- struct{}{} }
func (h *fakeHub) Stop(context.Context) error  { h.stops <- struct{}{}; return <-h.stop }

// If no hub may work on the store, serve ends with the exit code for that.
func TestServeIsRefused(t *testing.T) {
	h := &fakeHub{start: fmt.Errorf("opening: %w", app.ErrStoreRefused)}
	var e *cli.Error
	if err := serve(h, zap.NewNop(), nil); !errors.As(err, &e) || e.Code != cli.ExitRefused {
		t.Errorf("%v", err)
	}
}

func TestServeEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		start, failed, stop error
		signals             int
		want                error
	}{
		"start fails":            {start: broken, want: broken},
		"a part fails":           {failed: broken, want: broken},
		"and stopping as well":   {failed: broken, stop: errors.New("other"), want: broken},
		"signal":                 {signals: 1},
		"signal, stopping fails": {signals: 1, stop: broken, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHub{start: tc.start, failed: make(chan error, 1), stop: make(chan error, 1), stops: make(chan struct{}, 1)}
			if tc.failed != nil {
				h.failed <- tc.failed
			}
			h.stop <- tc.stop
			signals := make(chan os.Signal, 2)
			for range tc.signals {
				signals <- os.Interrupt
			}
			if err := serve(h, zap.NewNop(), signals); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}

// A second signal ends serve while the hub is still stopping.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	h := &fakeHub{failed: make(chan error), stop: make(chan error), stops: make(chan struct{}, 1)}
	signals := make(chan os.Signal, 2)
	ended := make(chan error, 1)
	go func() { ended <- serve(h, zap.NewNop(), signals) }()
	signals <- os.Interrupt
	<-h.stops
	select {
	case err := <-ended:
		t.Fatalf("ended before the second signal: %v", err)
	default:
	}
	signals <- os.Interrupt
	if err := <-ended; err == nil {
		t.Error("a hub that was cut off ended without an error")
	}
	h.stop <- fmt.Errorf("late")
}

// SIGHUP makes the hub read its publishers again. It ends neither a running nor a stopping hub,
// and a reload that hangs does not block later signals.
func TestHangupReloads(t *testing.T) {
	h := &fakeHub{failed: make(chan error), stop: make(chan error), stops: make(chan struct{}, 1), reload: make(chan struct{})}
	signals := make(chan os.Signal, 3)
	ended := make(chan error, 1)
	go func() { ended <- serve(h, zap.NewNop(), signals) }()
	signals <- syscall.SIGHUP
	<-h.reload
	signals <- syscall.SIGHUP // nobody receives this one yet
	signals <- os.Interrupt
	<-h.stops
	<-h.reload
	h.stop <- nil
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
