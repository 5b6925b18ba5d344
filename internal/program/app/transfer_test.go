package app

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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

// An export and the dry run of an import leave secrets as they are stored, whatever keys they have:
// the hubs on the store have others, or none.
func TestTransfersLeaveSecrets(t *testing.T) {
	old, both := sealKeyFile(t), filepath.Join(t.TempDir(), "both")
	text, err := os.ReadFile(old)
	if err == nil {
		err = os.WriteFile(both, append([]byte(strings.Repeat("Q", 42)+"A=\n"), text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, arg := range map[string]func() string{
		"folder": func() string { return "--data-dir=" + t.TempDir() },
		"redis":  func() string { return "--redis-url=" + redistest.Standalone(t).URL() },
	} {
		for kind, args := range map[string][]string{"plain": nil, "sealed": {"--seal-key-file=" + old}} {
			t.Run(name+" with secrets "+kind, func(t *testing.T) {
				args := append([]string{arg(), "--min-free-disk=0"}, args...)
				hub := openedApp(t, args...)
				fillStore(t, hub)
				if err := hub.backend.Close(); err != nil {
					t.Fatal(err)
				}
				with := newApp(t, append(args, "--seal-key-file="+both)...)
				var file strings.Builder
				if _, err := Export(t.Context(), with.cfg, zap.NewNop(), &file, ExportOptions{}); err != nil {
					t.Fatal(err)
				}
				if done, err := Import(t.Context(), with.cfg, zap.NewNop(), strings.NewReader(file.String()), ImportOptions{DryRun: true}, nil); err != nil || done.Stored > 0 || done.Partial() {
					t.Errorf("a dry run: %+v, %v", done, err)
				}
				if err := hub.openStore(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := hub.backend.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A dry run where there is no store counts what would be stored, and makes no store.
func TestDryRunMakesNoStore(t *testing.T) {
	hub := openedApp(t, "--data-dir="+t.TempDir(), "--min-free-disk=0")
	fillStore(t, hub)
	if err := hub.backend.Close(); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	exported, err := Export(t.Context(), hub.cfg, zap.NewNop(), &file, ExportOptions{Secrets: PlainSecrets})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]config.Config{
		"redis":     {RedisURL: config.Secret(redistest.Standalone(t).URL()), RedisPrefix: "none"},
		"folder":    {DataDir: t.TempDir()},
		"no folder": {DataDir: filepath.Join(t.TempDir(), "new")},
	} {
		done, err := Import(t.Context(), cfg, zap.NewNop(), strings.NewReader(file.String()), ImportOptions{DryRun: true}, nil)
		if err != nil || done.Stored == 0 || done.Kept > 0 || done.Partial() {
			t.Errorf("%s: %+v of %+v, %v", name, done, exported, err)
		}
		if _, err := Export(t.Context(), cfg, zap.NewNop(), io.Discard, ExportOptions{Secrets: PlainSecrets}); !errors.Is(err, ErrNoStore) {
			t.Errorf("%s: %v, want %v", name, err, ErrNoStore)
		}
		if _, err := os.Stat(filepath.Join(cfg.DataDir, "bodies")); err == nil {
			t.Errorf("%s: there is a folder for bodies", name)
		}
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
