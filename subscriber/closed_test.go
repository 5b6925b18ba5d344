package subscriber

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Run of a closed Subscriber says so. It waited until its context ended.
func TestRunAfterClose(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Topic: "https://source.example/changes/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Run(ctx); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}
