package egress

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
)

// attempt is what one call of dial finds out about the addresses of a name. The dialer
// may try two of them at once.
type attempt struct {
	client *Client

	mu      sync.Mutex
	seen    int
	allowed int
	refused *RefusedError
	spent   *BudgetError
}

// control runs before each connect(2), with the address that will be connected to: this is
// the guard. The context is that of the request.
func (a *attempt) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Addr: address, Reason: "is not an address of a host", Kind: RefusedForm}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen++
	if a.seen > maxAddresses {
		return fmt.Errorf("more than %d addresses were tried", maxAddresses)
	}
	addr := to.Addr()
	if refused := a.client.policy.checkTo(to); refused != nil {
		a.refused = refused
		a.client.refused(refused.Kind)
		return refused
	}
	if wait := placeOf(ctx).acquire(addrTarget(addr)); wait > 0 {
		a.spent = &BudgetError{Target: addr.Unmap().String(), Wait: wait}
		return a.spent
	}
	a.allowed++
	return nil
}

// result turns the dialer's error, which is that of the first address, into that of all
// addresses: if one address could be tried, the connection failed.
func (a *attempt) result(ctx context.Context, addr string, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case outOfFiles(err):
		return &failedError{FailureOwn, fmt.Errorf("%w: let this process open more files (ulimit -n, LimitNOFILE in systemd)", err)}
	case a.refused == nil && a.spent == nil:
		return &failedError{FailureConnect, err}
	case a.allowed > 0:
		return noConnection("connect to %s: none of the addresses that may be called answers", addr)
	case a.spent != nil:
		placeOf(ctx).confirm() // nothing was sent, so the host's place is free again
		return a.spent
	}
	return a.refused
}
