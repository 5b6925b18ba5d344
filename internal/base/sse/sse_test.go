package sse

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// read reads a whole stream, a line for each block.
func read(in io.Reader, limit int) (out []string, err error) {
	for r := NewReader(in, limit); ; {
		b, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return out, err
		}
		s := fmt.Sprintf("%s|%s|%s", b.Event, b.Data, b.ID)
		if b.Retry >= 0 {
			s += fmt.Sprintf("|%v", b.Retry)
		}
		out = append(out, s)
	}
}

func TestBlocks(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"an event with its id", "event: a\ndata: {}\nid: 1\n\n", []string{"a|{}|1"}},
		{"an id alone, as before the first event", "retry: 2000\nid: x\n\ndata: y\n\n", []string{"||x|2s", "|y|x"}},
		{"comments", ":\n\n: hello\n\ndata: a\n:\ndata: b\n\n", []string{"|a\nb|"}},
		{"ends of lines", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", []string{"|a|", "|b|", "|c|"}},
		{"a byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"|a|"}},
		{"one space is removed", "data:a\n\ndata:  b\n\ndata\n\n", []string{"|a|", "| b|", "||"}},
		{"unknown fields and names that only begin alike", "datum: a\nDATA: b\ndata : c\n\n", nil},
		{"an event without data is none", "event: a\n\ndata: b\n\n", []string{"|b|"}},
		{"what is not complete is dropped", "data: a\n\ndata: b\n", []string{"|a|"}},
		{"an id with NUL is none, an empty one is", "id: a\n\nid: \x00\ndata: b\n\nid\ndata: c\n\n", []string{"||a", "|b|a", "|c|"}},
		{"retry of digits alone", "retry: 1s\nretry: -1\nretry:\n\nretry: 99999999999999999999\n\n", []string{"|||24h0m0s"}},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(test.in), "bytes": iotest.OneByteReader(strings.NewReader(test.in))} {
			got, err := read(in, 100)
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("%s, %s: %q, %v; want %q", test.name, name, got, err, test.want)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	for name, test := range map[string]struct {
		in   string
		want error
	}{
		"a line":         {"data: " + long + "\n\n", ErrTooLong},
		"without an end": {long + long, ErrTooLong},
		"a comment":      {":" + long + "\n", ErrTooLong},
		"many lines":     {strings.Repeat("data: "+long[:5000]+"\n", 9) + "\n", ErrTooLong},
		"an id":          {"id: " + long[:MaxID+1] + "\n\n", ErrTooLong},
		"not UTF-8":      {"data: \xff\n\n", ErrEncoding},
		"fits":           {"data: " + long[:29_000] + "\n\n", nil},
	} {
		if _, err := read(strings.NewReader(test.in), 30_000); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// A block comes as soon as its empty line is there, whatever ends the line: nothing waits for
// what comes after it.
func TestNothingIsWaitedFor(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		in, out := io.Pipe()
		got := make(chan Block)
		go func() {
			b, _ := NewReader(in, 100).Next()
			got <- b
		}()
		_, _ = io.WriteString(out, "data: a"+end+end)
		select {
		case b := <-got:
			if string(b.Data) != "a" {
				t.Errorf("%q: %+v", end, b)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%q: the block did not come", end)
		}
		_ = out.Close()
	}
}

// A Reader that waits for its next event does not keep the memory of a long one.
func TestLongEventsLeaveNoMemory(t *testing.T) {
	r := NewReader(strings.NewReader("data: "+strings.Repeat("x", 1<<20)+"\n\ndata: y\n\n"), 2<<20)
	if b, err := r.Next(); len(b.Data) != 1<<20 || err != nil {
		t.Fatal(err)
	}
	if b, err := r.Next(); string(b.Data) != "y" || err != nil || cap(r.line)+cap(r.data) > 2*mostKept {
		t.Errorf("%q, %v, and %d bytes are kept", b.Data, err, cap(r.line)+cap(r.data))
	}
}

// However the bytes are divided, the same blocks come, and never more than the limit.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"event: a\r\ndata: b\r\n\r\n", "\xef\xbb\xbfid: 1\n\n:\n\n", "retry: 1\rdata\r\rid:x\n\n", "data: \xff\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const limit = 64
		whole, err := read(strings.NewReader(s), limit)
		bytewise, other := read(iotest.OneByteReader(strings.NewReader(s)), limit)
		if !reflect.DeepEqual(whole, bytewise) || !errors.Is(err, other) && fmt.Sprint(err) != fmt.Sprint(other) {
			t.Fatalf("%q %v, by bytes %q %v", whole, err, bytewise, other)
		}
		r := NewReader(strings.NewReader(s), limit)
		for {
			b, err := r.Next()
			if err != nil {
				return
			}
			if len(b.Data) > limit || len(b.Event) > limit || strings.ContainsAny(b.Event+b.ID, "\r\n") {
				t.Fatalf("%+v", b)
			}
		}
	})
}
