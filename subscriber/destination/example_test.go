package destination_test

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/rshub/rshub/subscriber/destination"
)

// An application brings a copy in sync with its Source, proves it, and then polls the
// Source until it is ended. With Options.Callback, and Copy.Handler mounted there, changes
// are pushed.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := destination.Open(destination.Options{Source: "https://source.example/", Dir: "/var/lib/app/copy"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	report, err := c.Sync(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range report.Problems {
		fmt.Println(p.URL, p.Why)
	}
	audit, err := c.Audit(ctx, false)
	if err != nil || !audit.InSync {
		fmt.Println(err, audit.Findings)
		return
	}
	if err := c.Follow(ctx); err != nil {
		fmt.Println(err)
	}
}
