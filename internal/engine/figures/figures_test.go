package figures

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A scrape does not read the figures of the process. Run reads them every few seconds.
func TestMachineIsReadInTheBackground(t *testing.T) {
	s := New("test", "test", "v1")
	s.Seal()
	text := s.machine.text.Load()
	looks := 0
	w := httptest.NewRecorder()
	s.Handler(func() { looks++ }).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if looks != 1 || s.machine.text.Load() != text {
		t.Errorf("%d looks, and a scrape read the figures of the process: %t", looks, s.machine.text.Load() != text)
	}
	synctest.Test(t, func(t *testing.T) {
		go func() { _ = s.Run(t.Context()) }()
		time.Sleep(machineEvery)
		synctest.Wait()
		if s.machine.text.Load() == text {
			t.Error("nobody read them")
		}
	})
}

func TestUnix(t *testing.T) {
	if Unix(time.Time{}) != 0 || Unix(time.UnixMilli(1500)) != 1.5 {
		t.Error(Unix(time.Time{}), Unix(time.UnixMilli(1500)))
	}
}
