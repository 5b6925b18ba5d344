package demo

import (
	"cmp"
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

	"github.com/rshub/rshub/internal/base/clock"
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
	// Data is the folder that is published, ./demo-data by default. If it does not exist,
	// it is created with some files. Copy is the folder of the copy, ./demo-copy by default.
	// It must be empty or from an earlier demo: files that are not in Data are deleted there.
	Data, Copy string
	Version    string
	Out        io.Writer
	// Log is the log of the Source and the Destination, and Hub that of the hub; nil
	// discards them.
	Log *slog.Logger
	Hub *zap.Logger
}

const (
	startWithin = 30 * time.Second
	stopWithin  = 15 * time.Second
	unchanged   = 100 * time.Millisecond // a file is published when it has not changed for this long
	together    = 20 * time.Millisecond  // changes within this time are one notification
)

// demo is one demo under way.
type demo struct {
	o     Options
	lines *lines
	state string // a folder that is deleted at the end

	hub    *app.App
	source *source.Source
	copy   *destination.Copy
	stops  []func()
}

// Run runs the demo until ctx ends. It returns an error if something could not be started or
// ended by itself; ErrNested is one of them.
func Run(ctx context.Context, o Options) error {
	o.Data, o.Copy = cmp.Or(o.Data, "demo-data"), cmp.Or(o.Copy, "demo-copy")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	d := &demo{o: o, lines: newLines(o.Out)}
	defer d.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.prepare(); err != nil {
		return err
	}
	failed := make(chan error, 3)
	err := d.start(ctx, failed)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		case err = <-d.hub.Failed():
		}
	}
	if ctx.Err() != nil {
		d.lines.say("ended; " + d.o.Data + " and " + d.o.Copy + " stay")
		return nil
	}
	return err
}

// prepare creates the folders.
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

// defers registers what is done at the end, in reverse order.
func (d *demo) defers(f func()) { d.stops = append(d.stops, f) }

func (d *demo) stop() {
	for i := len(d.stops) - 1; i >= 0; i-- {
		d.stops[i]()
	}
}

// start starts the hub, the Source and the Destination, in this order.
func (d *demo) start(ctx context.Context, failed chan<- error) error {
	if err := d.startHub(ctx); err != nil {
		return fmt.Errorf("starting the hub: %w", err)
	}
	at, err := d.startSource(ctx, failed)
	if err != nil {
		return fmt.Errorf("starting the Source: %w", err)
	}
	d.lines.print("A hub, a Source and a Destination run in this process. Ctrl-C ends them.")
	d.lines.print("  hub          " + d.hub.HubURL() + "   for operators: http://" + d.hub.AdminAddr() + "/ui/")
	d.lines.print("  Source       " + at + "   publishes " + d.o.Data)
	d.lines.print("  Destination  keeps " + d.o.Copy + " in sync with it")
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
		_ = d.hub.Stop(stopping) // its state is deleted anyway
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
		Sets:     []source.Set{{Folder: source.FolderOptions{Dir: d.o.Data, Settle: unchanged, MaxDeleted: 1}}},
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

// startCopy returns when the copy is complete and subscribed.
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

// baseline makes the copy, once the Source has scanned its folder.
func (d *demo) baseline(ctx context.Context, from string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for !get(ctx, from+"resourcelist.xml", nil) {
		if ctx.Err() != nil {
			return fmt.Errorf("the Source has no Resource List after %v", startWithin)
		}
		clock.Sleep(ctx, 50*time.Millisecond)
	}
	if _, err := d.copy.Sync(ctx); err != nil {
		return err
	}
	audit, err := d.copy.Audit(ctx, true) // what an earlier demo left over is deleted
	if err != nil {
		return err
	}
	result := "in sync"
	if !audit.InSync {
		result = fmt.Sprintf("not in sync: %d missing, %d differing, %d extra", audit.Missing, audit.Differing, audit.Extra)
	}
	done := quantity.Count(audit.Equal, "file", "files")
	if audit.Repaired != nil && audit.Repaired.Deleted > 0 {
		done += fmt.Sprintf(", %d of an earlier demo deleted", audit.Repaired.Deleted)
	}
	d.lines.say("baseline: " + done + "; the copy is " + result)
	return nil
}

// get asks for a document of the hub or the Source, and decodes its JSON unless into is nil.
// It reports whether that worked.
func get(ctx context.Context, address string, into any) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }() // only read
	return resp.StatusCode == http.StatusOK && (into == nil || json.NewDecoder(resp.Body).Decode(into) == nil)
}

// subscribed waits until the hub has the subscription.
func (d *demo) subscribed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for ctx.Err() == nil {
		var page struct {
			Items []json.RawMessage `json:"items"`
		}
		if get(ctx, "http://"+d.hub.AdminAddr()+"/api/v1/subscriptions?state=active", &page) && len(page.Items) > 0 {
			d.lines.say("the Destination is subscribed: the hub verified its callback")
			return nil
		}
		clock.Sleep(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("the hub has not verified the Destination's callback within %v", startWithin)
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

// address returns an address on loopback: with the usual port, or with a free one if that is
// in use.
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
