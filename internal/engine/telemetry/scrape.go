package telemetry

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/common/expfmt"
)

// Handler answers a scrape, in Prometheus's text format whatever is asked for: it
// is the one that everybody reads. It walks over nothing and asks no store.
func (m *Metrics) Handler() http.Handler {
	buffers := sync.Pool{New: func() any { return new([]byte) }}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		buffer, _ := buffers.Get().(*[]byte)
		defer buffers.Put(buffer)
		m.scraping.Lock()
		defer m.scraping.Unlock()
		if m.ask != nil {
			m.now = m.ask()
		}
		*buffer = append(m.page.append((*buffer)[:0]), *m.machine.text.Load()...)
		w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		w.Header().Set("Content-Length", strconv.Itoa(len(*buffer)))
		_, _ = w.Write(*buffer) // whoever is gone does not read it
	})
}
