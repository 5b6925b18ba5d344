package redisstore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/google/uuid"

	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/test/redistest"
)

// These make the test binary the other process of TestTwoProcesses.
const (
	childURL    = "RSHUB_TEST_REDIS_URL"
	childPrefix = "RSHUB_TEST_REDIS_PREFIX"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := child(url, os.Getenv(childPrefix)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(url, prefix string) error {
	s, err := Open(context.Background(), Options{URL: url, Prefix: prefix, Timeout: patience})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return storetest.Child(context.Background(), s, os.Stdout)
}

// Two processes on one Redis lose nothing, and count nothing twice.
func TestTwoProcesses(t *testing.T) {
	url, prefix := redistest.Standalone(t, redistest.Shared()).URL(), "processes-"+uuid.NewString()
	s := openStore(t, Options{URL: url, Prefix: prefix, Timeout: patience})
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+url, childPrefix+"="+prefix)
	storetest.RunProcesses(t, s, cmd)
}

// What every store does when it is full.
func TestFullStore(t *testing.T) {
	server := redistest.Standalone(t)
	s := openStore(t, Options{URL: server.URL(), Timeout: patience})
	maxmemory := func(bytes string) func() error {
		return func() error {
			server.Do(t, "CONFIG", "SET", "maxmemory", bytes)
			s.memory.look(t.Context())
			return nil
		}
	}
	storetest.RunFull(t, s, maxmemory("1"), maxmemory("0"))
}
