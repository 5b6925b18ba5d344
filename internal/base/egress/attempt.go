package egress

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
)

type attemptKey struct{}

// attempt is what one call of dial learns of the addresses of a name. The dialer
// may try two of them at once.
type attempt struct {
	mu      sync.Mutex
	seen    int
	allowed int
	refused *RefusedError
	spent   *BudgetError
}

// admit decides on one address and port. A nil place has no budget.
func (a *attempt) admit(p policy, pl *place, to netip.AddrPort) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen++
	if a.seen > maxAddresses {
		return fmt.Errorf("more than %d addresses were tried", maxAddresses)
	}
	addr := to.Addr()
	if refused := p.checkTo(to); refused != nil {
		a.refused = refused
		return refused
	}
	if wait := pl.take(addrTarget(addr)); wait > 0 {
		a.spent = &BudgetError{Target: addr.Unmap().String(), Wait: wait}
		return a.spent
	}
	a.allowed++
	return nil
}

// verdict turns the dialer's error, which is that of the first address, into
// that of all of them: where one address could be tried, what failed is the
// connection.
func (a *attempt) verdict(ctx context.Context, addr string, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.allowed > 0 && (a.refused != nil || a.spent != nil):
		return &connectError{fmt.Errorf("connect to %s: none of the addresses that may be called answers", addr)}
	case a.allowed > 0:
		return &connectError{err}
	case a.spent != nil:
		placeOf(ctx).confirm() // nothing was sent, so the host's place is free again
		return a.spent
	case a.refused != nil:
		return a.refused
	default:
		return &connectError{err}
	}
}
