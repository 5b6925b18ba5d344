// Package pipes is a listener without a network, for tests: the deadlines of its
// connections are in the time of a synctest bubble.
package pipes

import "net"

// Listener hands the connections that [Listener.Send] gets to a server. Close may be
// called once.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Listen returns a new one.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Send returns when the server has accepted c, which nobody does once the listener is
// closed.
func (l *Listener) Send(c net.Conn) { l.conns <- c }

// Dial returns the client's end of a connection that the server has accepted.
func (l *Listener) Dial() net.Conn {
	client, server := net.Pipe()
	l.Send(server)
	return client
}

// Accept waits for a connection. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. Connections stay.
func (l *Listener) Close() error { close(l.closed); return nil }

// Addr returns an address that says nothing.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{} }
