package post

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// line is the descriptor of a connection. One goroutine at a time uses it.
type line struct {
	conn net.Conn
	raw  syscall.RawConn
	// These are made once for all calls.
	look func(fd uintptr)
	step func(fd uintptr) (done bool)

	one   [1]byte
	quiet bool // look found the connection open, and nothing to read
	asked asked
}

// newLine returns the line of a connection; nil: it has none.
func newLine(nc net.Conn) *line {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	l := &line{conn: nc, raw: raw}
	l.look = func(fd uintptr) { // it does not block: the descriptors of package net never do
		_, err := again(syscall.Read, int(fd), l.one[:])
		l.quiet = errors.Is(err, syscall.EAGAIN)
	}
	l.step = func(fd uintptr) bool { return l.next(int(fd)) }
	return l
}

// alive reports whether the connection is open and nothing can be read from it. If something
// can, it is lost.
func (l *line) alive() bool {
	l.quiet = false
	return l.raw.Control(l.look) == nil && l.quiet
}

// asked is what ask does, and what came of it.
type asked struct {
	out, in     []byte
	begun       bool
	wrote, read int
	err         error // of the writing
}

// ask writes a request to a connection that was idle, waits, and reads the beginning of the answer. Write and
// Read would ask the kernel once more: Read tries before it waits, though the other side can't have
// answered yet. The error is errGone, or one of writing. If less is written than out, Write writes the
// rest. If nothing is read, Read says why.
//
// The runtime wakes ask only for what comes after it began. So ask first looks whether something
// came before that.
func (l *line) ask(out, in []byte) (wrote, read int, err error) {
	l.asked = asked{out: out, in: in}
	_ = l.raw.Read(l.step) // Write or Read will return the same error
	a := l.asked
	l.asked = asked{}
	return a.wrote, a.read, a.err
}

// next is one step of ask. Where it is not done, it waits until there is something to read.
func (l *line) next(fd int) (done bool) {
	a := &l.asked
	var err error
	if a.begun {
		a.read, err = again(syscall.Read, fd, a.in)
		return !errors.Is(err, syscall.EAGAIN)
	}
	a.begun = true
	if l.look(uintptr(fd)); !l.quiet {
		a.err = errGone
		return true
	}
	a.wrote, err = again(syscall.Write, fd, a.out)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		a.err = &net.OpError{Op: "write", Net: "tcp", Source: l.conn.LocalAddr(), Addr: l.conn.RemoteAddr(), Err: os.NewSyscallError("write", err)}
	}
	return a.wrote < len(a.out)
}

// again makes a system call until no signal interrupts it. It returns n = 0 with an error.
func again(call func(fd int, b []byte) (int, error), fd int, b []byte) (n int, err error) {
	for {
		if n, err = call(fd, b); !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}
