package destination

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// mayBePast returns an error if a past state is copied, and nothing shows that the bytes at the
// address of a resource are those of then: there is no hash, and the response is newer or has no
// time.
func (ft *fetcher) mayBePast(w *desired, resp *http.Response) error {
	at := ft.past.Load()
	if at == nil || len(w.digests.Algorithms()) > 0 {
		return nil
	}
	modified, err := http.ParseTime(resp.Header.Get("Last-Modified"))
	switch {
	case err != nil:
		return &refusedError{errors.New("nothing shows that its bytes are those of this state: the Source gives no hash, and its server no Last-Modified")}
	case modified.After(*at):
		return &refusedError{fmt.Errorf("it was modified at %s, after this state, and the Source has no hash of the bytes of then", resourcesync.FormatDatetime(modified))}
	}
	return nil
}

// explainPast says of an error why a past state may lack a resource.
func (ft *fetcher) explainPast(err error) error {
	var mismatch *mismatchError
	if ft.past.Load() == nil || !isGone(err) && !errors.As(err, &mismatch) {
		return err
	}
	return fmt.Errorf("%w: the bytes that it had in this state are not at its address any more, and no dump has them", err)
}

// past compares a set with the state that the copy has of it, if the Source still describes it by
// a list; otherwise by record.
func (a *audit) past(ctx context.Context, set namedSet) (time.Time, error) {
	st := a.c.state.set(set.name)
	a.c.fetcher.past.Store(&st.BaselineAt)
	p, err := a.c.syncer.pinner.pastOf(ctx, set, a.report.Pinned, resourcesync.ResourceList)
	if err == nil {
		defer p.remove()
		if p.at.Equal(st.BaselineAt) && p.base.capability == resourcesync.ResourceList && p.lists {
			return p.at, a.compareAll(ctx, p.docs.wants(set, p.newer), nil)
		}
	} else if ctx.Err() != nil || !errors.Is(err, ErrNoState) && !isGone(err) {
		return time.Time{}, err
	}
	return st.BaselineAt, a.byRecord(ctx, set)
}

// isGone reports whether a document of the Source does not exist any more.
func isGone(err error) bool {
	var status *subscriber.StatusError
	return errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}
