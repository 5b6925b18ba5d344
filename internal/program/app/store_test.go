package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
)

// memory is a store of a third kind.
type memory struct{ *storetest.Memory }

var errMemoryGone = errors.New("the memory is gone")

func (memory) ID() string                             { return "m1" }
func (memory) Ready(context.Context) error            { return nil }
func (memory) Space() (free, least int64, known bool) { return 0, 0, false }
func (memory) Close() error                           { return nil }

// A row in storeKinds is all that a store of a third kind needs: hubs, exports and imports
// use it if the settings name it.
func TestRowIsAllThatAStoreNeeds(t *testing.T) {
	stored := memory{storetest.NewMemory()}
	var opened []storeOptions
	row := storeKind{
		named: func(cfg *config.Config) bool { return cfg.NodeID == "in memory" },
		open: func(_ context.Context, _ *config.Config, o storeOptions) (*backend, error) {
			opened = append(opened, o)
			return &backend{hubStore: stored, info: admin.StoreInfo{Kind: "memory", ID: stored.ID()}, leases: cluster.Alone}, nil
		},
		connections: func(*config.Config) int { return 7 },
		unavailable: []error{errMemoryGone},
	}
	before := storeKinds
	storeKinds = append([]storeKind{row}, before...)
	t.Cleanup(func() { storeKinds = before })

	a := newApp(t, "--node-id=in memory")
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if err := a.starting(); err != nil {
			return err.Error()
		}
		return ""
	})
	if i := a.info(t.Context()); i.Store != a.backend.info || i.Store.Kind != "memory" || i.Nodes[0].Shards != cluster.Shards {
		t.Errorf("info: %+v", i)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(a.cfg.DataDir, "store.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a store in the data folder as well: %v", err)
	}

	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := stored.Append(t.Context(), at, "http://s.example/t", journal.Entry{Kind: journal.KindChange, Body: []byte("x")}, ""); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	if _, err := Export(t.Context(), a.cfg, zap.NewNop(), &file, ExportOptions{Secrets: WithoutSecrets}); err != nil || !strings.Contains(file.String(), "http://s.example/t") {
		t.Fatalf("export: %v, %s", err, file.String())
	}
	if _, err := Import(t.Context(), a.cfg, zap.NewNop(), strings.NewReader(file.String()), ImportOptions{}, nil); err != nil {
		t.Fatalf("import: %v", err)
	}
	if len(opened) != 3 || opened[0].hub == nil || opened[0].existing || opened[1].hub != nil || !opened[1].existing || opened[2].hub != nil || opened[2].existing {
		t.Errorf("opened with %+v", opened)
	}

	other := a.cfg
	other.NodeID = "n1"
	if got := openFilesNeeded(&a.cfg) - openFilesNeeded(&other); got != 7 {
		t.Errorf("the hub counts %d connections to its store, want 7", got)
	}
	if !unavailable(t.Context(), errMemoryGone) || unavailable(t.Context(), errors.New("one topic")) {
		t.Error("the errors of a store that is away are not those of its row")
	}
}
