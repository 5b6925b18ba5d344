package app

import (
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/store/redisstore"
	"github.com/rshub/rshub/test/redistest"
)

// An export or an import from a Redis that may have lost something leaves it to the
// hubs to compare.
func TestTransfersReconcileNothing(t *testing.T) {
	server := redistest.Standalone(t)
	s, err := redisstore.Open(t.Context(), redisstore.Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	history := func() any { return server.Do(t, "GET", redisstore.DefaultPrefix+":{p:0}:history") }
	before := history()
	server.Do(t, "DEBUG", "CHANGE-REPL-ID")
	cfg := config.Config{RedisURL: config.Secret(server.URL())}
	var file strings.Builder
	if _, err := Export(t.Context(), cfg, zap.NewNop(), &file, ExportOptions{Secrets: PlainSecrets}); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), cfg, zap.NewNop(), strings.NewReader(file.String()), ImportOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if now := history(); before == nil || now != before {
		t.Errorf("the history was %q, and is %q", before, now)
	}
}

// An export from a Redis without a store says so; the embedded store does the same.
func TestExportNeedsAStore(t *testing.T) {
	for name, cfg := range map[string]config.Config{
		"redis":  {RedisURL: config.Secret(redistest.Standalone(t).URL()), RedisPrefix: "none"},
		"folder": {DataDir: t.TempDir()},
	} {
		for range 2 { // the first one makes none
			_, err := Export(t.Context(), cfg, zap.NewNop(), io.Discard, ExportOptions{Secrets: PlainSecrets})
			if !errors.Is(err, ErrNoStore) {
				t.Errorf("%s: %v, want %v", name, err, ErrNoStore)
			}
		}
	}
}
