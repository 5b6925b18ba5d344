package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/subscriber/destination"
)

// Options say where the demo works. The zero value works in the current folder.
type Options struct {
	// Data is the folder that is published, ./demo-data, and Copy that of the copy,
	// ./demo-copy. Data gets some files where there is no such folder. Copy has to be
	// empty or of an earlier demo, since what Data lacks is deleted there.
	Data, Copy string
	Version    string
	Out        io.Writer
	// Log is told what the Source and the Destination log, and Hub what the hub
	// does; nil: nobody is.
	Log *slog.Logger
	Hub *zap.Logger
}

const (
	startWithin = 30 * time.Second
	stopWithin  = 15 * time.Second
	settle      = 100 * time.Millisecond // a file that was left alone for this long is published
	together    = 20 * time.Millisecond  // changes so close are one notification
)

// demo is one demo under way.
type demo struct {
	o     Options
	lines *lines
	state string // a folder of its own, gone at the end

	hub    *app.App
	source *source.Source
	copy   *destination.Copy
	stops  []func()
}

// Run runs the demo until ctx ends. An error says what could not be started, or
// what ended by itself; ErrNested is one of them.
func Run(ctx context.Context, o Options) error {
	if o.Data == "" {
		o.Data = "demo-data"
	}
	if o.Copy == "" {
		o.Copy = "demo-copy"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &demo{o: o, lines: newLines(o.Out)}
	defer d.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.prepare(); err != nil {
		return err
	}
	failed := make(chan error, 3)
	if err := d.start(ctx, failed); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		d.lines.say("ended; " + d.o.Data + " and " + d.o.Copy + " stay")
		return nil
	case err := <-failed:
		return err
	case err := <-d.hub.Failed():
		return err
	}
}

// prepare makes the folders.
func (d *demo) prepare() (err error) {
	if err := apart(d.o.Data, d.o.Copy); err != nil {
		return err
	}
	if err := claim(d.o.Copy); err != nil {
		return err
	}
	if err := fill(d.o.Data); err != nil {
		return err
	}
	var done func()
	if d.state, done, err = stateFolder(); err != nil {
		return err
	}
	d.defers(done)
	return nil
}

// defers has something done at the end, the last first.
func (d *demo) defers(f func()) { d.stops = append(d.stops, f) }

func (d *demo) stop() {
	for i := len(d.stops) - 1; i >= 0; i-- {
		d.stops[i]()
	}
}

// start starts the three, one after the other.
func (d *demo) start(ctx context.Context, failed chan<- error) error {
	if err := d.startHub(ctx); err != nil {
		return fmt.Errorf("starting the hub: %w", err)
	}
	at, err := d.startSource(ctx, failed)
	if err != nil {
		return fmt.Errorf("starting the Source: %w", err)
	}
	d.lines.print("A hub, a Source and a Destination run in this process. Ctrl-C ends them.")
	d.lines.print("  hub          " + d.hub.HubURL() + "   for operators: http://" + d.hub.AdminAddr() + "/api/v1/info")
	d.lines.print("  Source       " + at + "   publishes " + d.o.Data)
	d.lines.print("  Destination  keeps " + d.o.Copy + " in step with it")
	if err := d.startCopy(ctx, at, failed); err != nil {
		return fmt.Errorf("starting the Destination: %w", err)
	}
	d.lines.print("Now change something in " + d.o.Data + ", for instance: echo hello > " + filepath.Join(d.o.Data, "hello.txt"))
	return nil
}

func (d *demo) startHub(ctx context.Context) error {
	at := address(ctx, 8080)
	args := []string{
		"--dev", "--listen", at, "--public-url", "http://" + at + "/", "--admin-listen", address(ctx, 8081),
		"--data-dir", filepath.Join(d.state, "hub"), "--drain", "2s",
	}
	cfg, _, err := config.Load(args, nil)
	if err != nil {
		return err
	}
	if d.hub, err = app.New(cfg, d.o.Hub, d.o.Version); err != nil {
		return err
	}
	if err := d.hub.Start(ctx); err != nil {
		return err
	}
	d.defers(func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		_ = d.hub.Stop(stopping) // what it could not finish is in its state, which goes as well
	})
	return nil
}

// startSource returns the public URL.
func (d *demo) startSource(ctx context.Context, failed chan<- error) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address(ctx, 8090))
	if err != nil {
		return "", err
	}
	at := "http://" + l.Addr().String() + "/"
	d.source, err = source.Open(source.Options{ //nolint:contextcheck // opening waits for nobody
		PublicURL: at, StateDir: filepath.Join(d.state, "source"),
		Sets:     []source.Set{{Folder: source.FolderOptions{Dir: d.o.Data, Settle: settle, MaxDeleted: 1}}},
		Hubs:     []publisher.Hub{{URL: d.hub.HubURL()}},
		Every:    together,
		Schedule: source.Schedule{ResourceList: time.Second, Dump: -1, Archive: -1},
		Hooks:    source.Hooks{Posted: d.lines.posted},
		Client:   http.DefaultClient, Log: d.o.Log,
	})
	if err != nil {
		_ = l.Close()
		return "", err
	}
	d.defers(func() { _ = d.source.Close() })
	d.serve(ctx, l, d.source.Handler(), failed)
	d.background(ctx, func() error { return d.source.Run(ctx) }, failed)
	return at, nil
}

// startCopy returns when the copy is in sync and subscribed.
func (d *demo) startCopy(ctx context.Context, from string, failed chan<- error) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address(ctx, 8095))
	if err != nil {
		return err
	}
	d.lines.source = from + "data/"
	d.copy, err = destination.Open(destination.Options{
		Source: from, Dir: d.o.Copy, StateDir: filepath.Join(d.state, "copy"), MaxDelete: destination.Share{N: math.MaxInt},
		Roots:    []destination.Root{{URL: from + "data/", Dir: "."}},
		Callback: "http://" + l.Addr().String() + "/", Allow: egress.DevAllow(), Event: d.lines.event, Log: d.o.Log,
	})
	if err != nil {
		_ = l.Close()
		return err
	}
	d.defers(func() { _ = d.copy.Close() })
	if err := d.baseline(ctx, from); err != nil {
		_ = l.Close()
		return err
	}
	d.serve(ctx, l, d.lines.watch(d.copy.Handler()), failed)
	d.background(ctx, func() error { return d.copy.Follow(ctx) }, failed)
	return d.subscribed(ctx)
}

// baseline takes the copy, once the Source has scanned its folder.
func (d *demo) baseline(ctx context.Context, from string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for !answers(ctx, from+"resourcelist.xml") {
		if ctx.Err() != nil {
			return fmt.Errorf("the Source has no Resource List after %v", startWithin)
		}
		pause(ctx)
	}
	if _, err := d.copy.Sync(ctx); err != nil {
		return err
	}
	audit, err := d.copy.Audit(ctx, true) // what an earlier demo left over is deleted
	if err != nil {
		return err
	}
	verdict := "in sync"
	if !audit.InSync {
		verdict = fmt.Sprintf("not in sync: %d missing, %d differing, %d extra", audit.Missing, audit.Differing, audit.Extra)
	}
	done := quantity.Count(audit.Equal, "file", "files")
	if audit.Repaired != nil && audit.Repaired.Deleted > 0 {
		done += fmt.Sprintf(", %d of an earlier demo deleted", audit.Repaired.Deleted)
	}
	d.lines.say("baseline: " + done + "; the copy is " + verdict)
	return nil
}

// answers reports whether there is something at an address.
func answers(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// subscribed waits until the hub has the subscription.
func (d *demo) subscribed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for ctx.Err() == nil {
		n, err := d.subscriptions(ctx)
		if err == nil && n > 0 {
			d.lines.say("the Destination is subscribed: the hub verified its callback")
			return nil
		}
		pause(ctx)
	}
	return fmt.Errorf("the hub has not verified the Destination's callback within %v", startWithin)
}

// subscriptions asks the hub how many are in force.
func (d *demo) subscriptions(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.hub.AdminAddr()+"/api/v1/subscriptions?state=active", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	err = json.NewDecoder(resp.Body).Decode(&page)
	return len(page.Items), err
}

// serve answers on l until the demo ends.
func (d *demo) serve(ctx context.Context, l net.Listener, h http.Handler, failed chan<- error) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	d.defers(func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			_ = server.Close()
		}
	})
}

// background runs a part until the demo ends.
func (d *demo) background(ctx context.Context, run func() error, failed chan<- error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(); err != nil && ctx.Err() == nil {
			failed <- err
		}
	}()
	d.defers(func() { <-ended })
}

func pause(ctx context.Context) {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// address is one on loopback: with the port that people expect, or if that is in use
// with a free one.
func address(ctx context.Context, port int) string {
	const free = 0
	for _, p := range []int{port, free} {
		if l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p))); err == nil {
			_ = l.Close()
			return l.Addr().String()
		}
	}
	return "127.0.0.1:0" // the error of listening there says what is wrong
}
