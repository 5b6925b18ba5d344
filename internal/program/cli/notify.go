package cli

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// Notify tells the service manager (systemd, Type=notify) that the program is ready, and, if the
// unit has WatchdogSec, that it still runs: twice in that time. At the end of ctx, or when stopping is
// called, it tells that the program stops. Stopping returns after that, and may be called again. Call it before the
// program ends. See sd_notify(3); of that this needs one datagram for each state, so there is no
// library for it.
//
// A message that can't be sent is lost: the service manager then acts as its unit says.
func Notify(ctx context.Context) (stopping func()) {
	ctx, end := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { notify(ctx) })
	return func() {
		end()
		telling.Wait()
	}
}

// notify is Notify until the end of ctx. It returns at once if no service manager asks.
func notify(ctx context.Context) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	conn, err := new(net.Dialer).DialContext(context.WithoutCancel(ctx), "unixgram", name)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	tell := func(state string) {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // the service manager may be busy
		_, _ = conn.Write([]byte(state))
	}
	tell("READY=1")
	var alive <-chan time.Time // nil: nobody watches
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	watched := os.Getenv("WATCHDOG_PID")
	if every := time.Duration(usec) * time.Microsecond / 2; err == nil && every > 0 && (watched == "" || watched == strconv.Itoa(os.Getpid())) {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		alive = ticker.C
	}
	for {
		select {
		case <-alive:
			tell("WATCHDOG=1")
		case <-ctx.Done():
			tell("STOPPING=1")
			return
		}
	}
}
