package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// receiverEnv is the number of hosts that the receiver has, and secureEnv the files of their certificate and
// key with a space between; empty: they have no TLS.
const (
	receiverEnv = "RSHUB_BENCH_RECEIVER"
	secureEnv   = "RSHUB_BENCH_RECEIVER_SECURE"
)

// stamped is with what the paths of callbacks begin that note how long deliveries were on their way.
const stamped = "/stamped/"

// after is with what the paths of callbacks begin that are answered after a time.
func after(d time.Duration) string { return "/after/" + d.String() + "/" }

// TestMain turns the test binary into the receiver, or into the readers of streams, if the environment
// says so. They are separate processes, so that only the CPU time and the allocations of the sender are measured.
func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(receiverEnv)); err == nil {
		if err := receive(n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(readerEnv) != "" {
		if err := readStreams(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// receive serves n callback addresses and a control address until its standard input ends. It
// prints them as a line of JSON, the control address first.
func receive(n int) error {
	var count atomic.Int64
	noted := new(latencies)
	callback := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		if strings.HasPrefix(r.URL.Path, stamped) {
			body, _ := io.ReadAll(r.Body)
			noted.add(body)
		} else {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		if late, ok := strings.CutPrefix(r.URL.Path, "/after/"); ok {
			late, _, _ = strings.Cut(late, "/")
			d, _ := time.ParseDuration(late)
			time.Sleep(d)
		}
		count.Add(1)
	})
	control := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("p99") {
			_, _ = fmt.Fprint(w, int64(noted.take()*1000)) // in microseconds
			return
		}
		// Answers once the count has reached the requested number.
		want, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		for deadline := time.Now().Add(time.Minute); count.Load() < want && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		_, _ = fmt.Fprint(w, count.Load())
	})
	cert, key, _ := strings.Cut(os.Getenv(secureEnv), " ")
	var addrs []string
	for i := range n + 1 {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: callback, ReadHeaderTimeout: time.Minute}
		switch {
		case i == 0:
			server.Handler = control
			fallthrough
		case cert == "":
			go func() { _ = server.Serve(l) }()
			addrs = append(addrs, "http://"+l.Addr().String())
		default:
			go func() { _ = server.ServeTLS(l, cert, key) }()
			addrs = append(addrs, "https://"+l.Addr().String())
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(addrs); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// receivers is the process that receive runs in.
type receivers struct {
	control string
	hosts   []string
}

// startReceivers starts receivers without TLS.
func startReceivers(b *testing.B) *receivers { return receiversWith(b) }

// receiversWith starts receivers with more in their environment.
func receiversWith(b *testing.B, env ...string) *receivers {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), receiverEnv+"="+strconv.Itoa(hosts)), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	var addrs []string
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(line, &addrs); err != nil {
		b.Fatal(err)
	}
	return &receivers{control: addrs[0], hosts: addrs[1:]}
}

// count waits until n deliveries have come, or for a minute, and returns how many have come.
func (r *receivers) count(b *testing.B, n int64) int64 {
	b.Helper()
	return r.ask(b, "n="+strconv.FormatInt(n, 10))
}

// p99 is the 99th percentile of how long deliveries were on their way since the last call, by the time in them, in ms.
func (r *receivers) p99(b *testing.B) float64 {
	b.Helper()
	return float64(r.ask(b, "p99")) / 1000
}

func (r *receivers) ask(b *testing.B, query string) int64 {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, r.control+"/?"+query, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	got, err := strconv.ParseInt(string(body), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return got
}
