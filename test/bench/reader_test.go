package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const readerEnv = "RSHUB_BENCH_READER"

// mark is a byte that each notification of these benchmarks has once, in its document, and nothing else
// that a stream sends.
const mark = "~"

// order is what the process of readers is asked for, as a line of JSON. It answers each with a count.
type order struct {
	// Open: so many connections to Addr, each of which sends Request first. Their number is
	// answered when each has had a byte, or when all are open if the request is empty.
	Open     int
	Addr     string
	Request  []byte
	TLS      bool
	Sluggish bool // they read nothing
	Stamped  bool // they note how long each event was on its way, by the time in it
	// Wait: until so many marks came in all, or a minute. The number is answered.
	Wait int64
	// Take: the 99th percentile of what was noted since the last time is answered, in microseconds.
	Take bool
	// Close: all connections.
	Close bool
}

// readStreams does what orders on its standard input say, until that ends.
func readStreams() error {
	var got atomic.Int64
	noted := new(latencies)
	var open []net.Conn
	orders, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := orders.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		answer := int64(0)
		switch {
		case o.Open > 0:
			more, err := openStreams(o, &got, noted)
			if err != nil {
				return err
			}
			open = append(open, more...)
			answer = int64(len(more))
		case o.Wait > 0:
			for deadline := time.Now().Add(time.Minute); got.Load() < o.Wait && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			answer = got.Load()
		case o.Take:
			answer = int64(noted.take() * 1000)
		case o.Close:
			for _, c := range open {
				_ = c.Close()
			}
			answer = int64(len(open))
			open = nil
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

// openStreams opens the connections of an order, and counts the marks that come by them.
func openStreams(o order, got *atomic.Int64, noted *latencies) ([]net.Conn, error) {
	conns, errs := make([]net.Conn, o.Open), make(chan error, o.Open)
	limit := make(chan struct{}, 64)
	var begun sync.WaitGroup
	for i := range conns {
		begun.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			var err error
			if conns[i], err = openStream(o, got, noted); err != nil {
				errs <- err
			}
		})
	}
	begun.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return conns, nil
	}
}

func openStream(o order, got *atomic.Int64, noted *latencies) (net.Conn, error) {
	c, err := net.Dial("tcp", o.Addr) //nolint:noctx // it ends with the process
	if err != nil {
		return nil, err
	}
	if o.TLS {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // the certificate is made for the benchmark
	}
	if len(o.Request) > 0 {
		if _, err := c.Write(o.Request); err != nil {
			return nil, err
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return nil, err
		}
	}
	switch {
	case o.Sluggish:
	case o.Stamped:
		go func() {
			for in := bufio.NewReader(c); ; {
				line, err := in.ReadBytes('\n')
				if err != nil {
					return
				}
				noted.add(line)
			}
		}()
	default:
		go func() {
			for b := make([]byte, 4<<10); ; {
				n, err := c.Read(b)
				got.Add(int64(bytes.Count(b[:n], []byte(mark))))
				if err != nil {
					return
				}
			}
		}()
	}
	return c, nil
}

// readers is the process that readStreams runs in.
type readers struct {
	b   *testing.B
	in  io.Writer
	out *bufio.Reader
}

func startReaders(b *testing.B) *readers {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), readerEnv+"=1")
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
	return &readers{b, stdin, bufio.NewReader(stdout)}
}

// do gives an order. Its answer is to be want.
func (r *readers) do(o order, want int64) {
	r.b.Helper()
	if got := r.ask(o); got != want {
		r.b.Fatalf("the readers answer %d to %s, want %d", got, fmt.Sprintf("open %d, wait %d, close %v", o.Open, o.Wait, o.Close), want)
	}
}

// p99 is that of what was noted since the last time, in ms.
func (r *readers) p99() float64 {
	r.b.Helper()
	return float64(r.ask(order{Take: true})) / 1000
}

// ask gives an order, and returns the answer.
func (r *readers) ask(o order) (got int64) {
	r.b.Helper()
	if err := json.NewEncoder(r.in).Encode(o); err != nil {
		r.b.Fatal(err)
	}
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		r.b.Fatal("the readers ended: ", err)
	}
	if err := json.Unmarshal(line, &got); err != nil {
		r.b.Fatalf("the readers answer %s", bytes.TrimSpace(line))
	}
	return got
}
