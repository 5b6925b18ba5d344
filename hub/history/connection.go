package history

import (
	"net/http"
	"syscall"
)

// mostHeard is how many bytes a reader may send while its stream is open. It has nothing to say.
const mostHeard = 64 << 10

// hijack makes the connection of a request that of the stream. Net/http does nothing with it any more.
func (st *stream) hijack(w http.ResponseWriter) (err error) {
	if st.conn, _, err = http.NewResponseController(w).Hijack(); err != nil {
		return err
	}
	st.slow = &steady{w: st.conn, on: st.conn, stall: st.s.o.Stall}
	st.quick = func([]byte) int { return 0 }
	if c, ok := st.conn.(syscall.Conn); ok { // not TLS: nothing says how much it accepts
		if raw, err := c.SyscallConn(); err == nil {
			st.quick = quick(raw)
		}
	}
	return nil
}

// quick returns a function that writes to a connection as much as it accepts without waiting.
func quick(raw syscall.RawConn) func(b []byte) int {
	var b []byte
	var n int
	write := func(fd uintptr) { // it does not block: the descriptors of package net never do
		n, _ = syscall.Write(int(fd), b) // an error comes again
	}
	return func(what []byte) int {
		b, n = what, 0
		_ = raw.Control(write)
		b = nil
		return max(n, 0)
	}
}

// hear returns when the reader went away or sent too much, or when the stream was stopped.
func (st *stream) hear() {
	b := make([]byte, 64)
	for left := mostHeard; left > 0; {
		n, err := st.conn.Read(b)
		if err != nil {
			return
		}
		left -= n
	}
}
